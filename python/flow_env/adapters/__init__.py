"""The field's environments. Each adapter imports its package when it is named, and not before."""
