"""Weights in f32 beside a model that computes in bf16, on one rank. (Several ranks leave this to FSDP2.)"""
import torch

from .memory import TOGETHER


class Masters:
    """The trained parameters of a model that computes in bf16, in f32: they take the gradient's sum, and learn. Numbers and gradients lie one behind the other,
    so that they are summed and copied at once."""

    def __init__(self, parameters):
        self.parameters, self.copies, self.gradients = parameters, [], []
        if not parameters:
            return
        self.flat = torch.cat([p.detach().reshape(-1).float() for p in parameters])
        self.gradient = torch.zeros_like(self.flat)
        own = torch.empty_like(self.flat, dtype=torch.bfloat16)
        sizes = [p.numel() for p in parameters]
        for p, numbers, gradient, short in zip(parameters, *(flat.split(sizes) for flat in (self.flat, self.gradient, own))):
            copy = torch.nn.Parameter(numbers.view_as(p))
            copy.grad = gradient.view_as(p)
            p.data = short.view_as(p)
            self.copies.append(copy)
            self.gradients.append(copy.grad)
        self.short, self.fresh = own, True
        self.by_parameter = {id(p): copy for p, copy in zip(parameters, self.copies)}
        self.publish()

    def of(self, parameter):
        return self.by_parameter.get(id(parameter), parameter) if self.copies else parameter

    @torch.no_grad()
    def zero(self):
        if self.copies:
            if not self.fresh:
                self.gradient.zero_()
            self.fresh = True
            for p, copy, gradient in zip(self.parameters, self.copies, self.gradients):
                p.grad, copy.grad = None, gradient

    @torch.no_grad()
    def collect(self):
        """Adds the gradients of the last way back to the sums."""
        both = [(p.grad, gradient) for p, gradient in zip(self.parameters, self.gradients) if p.grad is not None]
        if both:
            grads, sums = zip(*both)
            if self.fresh:
                torch._foreach_copy_(sums, grads)
            elif self.gradient.nbytes > TOGETHER:
                torch._foreach_add_(sums, [grad.float() for grad in grads])
            else:
                # One behind the other first: a conversion of each would be a kernel of each.
                sizes = [grad.numel() for grad in grads]
                wide = torch.empty(sum(sizes), device=self.gradient.device).split(sizes)
                wide = [part.view_as(grad) for part, grad in zip(wide, grads)]
                torch._foreach_copy_(wide, grads)
                torch._foreach_add_(sums, wide)
            self.fresh = False
        for p in self.parameters:
            p.grad = None

    @torch.no_grad()
    def publish(self):
        """Has the model compute with the copies as they are now."""
        if self.copies:
            self.short.copy_(self.flat)
