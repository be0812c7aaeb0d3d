"""Gradients of losses and of their norms without second derivatives."""

from har_jax.first_order.moved import Value, differentiate_first_order, has_first_derivative

__all__ = ["Value", "differentiate_first_order", "has_first_derivative"]
