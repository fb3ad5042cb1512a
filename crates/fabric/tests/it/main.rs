//! Laws of the model, and examples worked by hand.
mod examples;
mod laws;
