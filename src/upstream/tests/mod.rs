//! The room against a scripted upstream on real sockets.
