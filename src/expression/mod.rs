//! The door of this room.
