"""The program `flow` with the libraries of this environment's PyTorch. The wheel brings the program; see docs/install.md."""
