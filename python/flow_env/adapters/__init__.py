"""The field's worlds. Each adapter imports its package when it is named, and not before."""
