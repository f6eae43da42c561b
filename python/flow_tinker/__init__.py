"""A trainer for flow whose weights lie on a server of Tinker's protocol: log-probabilities and the gradient of a loss by them go over the
network, as docs/protocol.md ("Trainers") says on one side and the SDK `tinker` on the other.

It holds no loss. How the server reduces a linear loss is measured before the first step (`reduction`).
"""

VERSION = "0.1.0"
# Where a key is kept, and the only place.
KEY = "TINKER_API_KEY"
