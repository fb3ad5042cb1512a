//! The laws of plans and kernels, checked against arithmetic and movement written down independently.
#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a panic is how a test fails, and its tensors are small"
)]

mod naive;
mod plans;
mod results;
