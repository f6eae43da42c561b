"""`python -m flow_runs`: figures in what people watch."""

from .watch import main

main()
