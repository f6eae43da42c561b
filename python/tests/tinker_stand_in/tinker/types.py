"""The SDK's types, as far as flow_tinker uses them."""
from dataclasses import dataclass, field


class TensorData:
    def __init__(self, numbers):
        self.numbers = numbers

    @classmethod
    def from_numpy(cls, numbers):
        return cls(numbers)

    def to_numpy(self):
        return self.numbers


class ModelInput:
    def __init__(self, tokens):
        self.tokens = tokens

    @classmethod
    def from_ints(cls, tokens):
        return cls(tokens)


@dataclass
class Datum:
    model_input: ModelInput
    loss_fn_inputs: dict


@dataclass
class AdamParams:
    learning_rate: float = 1e-4
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-12
    weight_decay: float = 0.0
    grad_clip_norm: float = 0.0


@dataclass
class SamplingParams:
    max_tokens: int = 0
    seed: int = 0
    stop: list = field(default_factory=list)
    temperature: float = 1.0
    top_k: int = -1
    top_p: float = 1.0
