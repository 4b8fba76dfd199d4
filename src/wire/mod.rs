//! HTTP on one side, the words of the contract on the other.
//!
//! What lives here: what a request *is* ([`route`], [`caller`], [`identify`], [`canonical`],
//! [`meaning`], [`fingerprint`], [`keys`]), what of it may travel ([`hygiene`], [`body`]), what is
//! put into it on its way ([`insertion`]), which work it belongs to ([`work`]), what its caller is told ([`answer`], [`problem`],
//! [`reply`]), what is asked about it ([`question`], [`findings`]), and whether one who calls back is
//! who it says ([`signed`]).
//!
//! What always holds: everything here is a pure function of what it is given, but for [`body`],
//! which reads one. Bodies are shared, never copied. Nothing here logs.
//!
//! Bytes of strangers come in through one door each: [`canonical::Canonical::of`] (content of any type,
//! forms and uploads included), [`json::canonical`], [`keys::caller_key`]; and, below this room, through
//! `expression::multipart::parts`, `expression::Template::parse` and `FencingToken::parse`.
//!
//! What it does not do: accept connections (`proxy`), send anything (`upstream`), decide
//! (`protocol`).

pub mod answer;
pub mod body;
pub mod caller;
pub mod canonical;
pub mod findings;
pub mod fingerprint;
mod form;
pub mod hygiene;
pub mod identify;
pub mod insertion;
pub mod json;
pub mod keys;
pub mod meaning;
mod members;
pub mod overheard;
pub mod prefer;
pub mod principal;
pub mod problem;
pub mod question;
pub mod recorded;
pub mod reply;
pub mod route;
mod selected;
pub mod shaped;
pub mod shell;
pub mod signed;
pub mod stamp;
mod unidentified;
pub mod work;

#[cfg(test)]
mod fixtures;
