"""An executable specification of lecture notes on PyTorch resource accounting."""
