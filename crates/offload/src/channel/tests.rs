//! Both ends of a channel on one thread, in simulated time.

mod attacks;
mod handshake;
mod transport;
mod vectors;
mod world;
