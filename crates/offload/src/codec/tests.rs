mod conformance;
pub mod document;
pub mod generate;
mod mutate;
mod refused;
mod round_trip;
pub mod vectors;
