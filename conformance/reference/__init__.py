"""An independent reference of the losses and advantages of reinforcement learning for language models, in float64 NumPy."""
