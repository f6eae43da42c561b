"""Rollouts of other trainers, read for `flow import`: verifiers' traces, NeMo Gym's rollouts, conversations with rewards."""
