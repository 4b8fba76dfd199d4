//! Profiles: what is known about an API, as data under a name.
//!
//! ```sh
//! fencepost profiles list                # where keys go, and for how long they count
//! fencepost profiles show stripe-v1      # what it brings; --yaml: the file, with its sources; --json
//! ```
//!
//! A profile has the fields of an upstream. What the config says of a field wins, field by field; a place
//! for the key stands for the profile's; effects of the config come before the profile's, and the first that
//! matches counts. Its answers are laid under the config's.
//!
//! What a profile says was read at the API's own documentation, unless it is marked: `[s]` is second hand,
//! `[?]` was not found. Where there is doubt it is careful: a lifetime that is not published is none, and
//! nothing is sent again unattended; of two that are published the shorter counts; an error that is about
//! the *key* (it met another payload, or its first request still runs) proves nothing, whatever its status.
//!
//! # One's own
//!
//! ```yaml
//! version: 1
//! profiles: /etc/fencepost/profiles      # NAME.yaml, with fields of an upstream
//! upstreams:
//!   ledger: { listen: 127.0.0.1:15003, url: "https://ledger.internal", profile: ledger }
//! ```
//!
//! stand in place of those of their name that are compiled in. A file that changes is read again like the
//! config itself. What is wrong in one is told at the line of the config that names it.
