UNSET=object()
