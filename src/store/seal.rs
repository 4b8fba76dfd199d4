//! Encryption at rest of customer content: stored requests (credentials included) and answers.
//!
//! What always holds: AES-256-GCM under a fresh random nonce for every record. The identity of the
//! operation and what the content is are authenticated with it, so content that was moved to another
//! operation, or changed, does not open. The first key seals; every known key opens, and a sealed
//! record names its key. The key that is kept seals nothing itself: sealing and fingerprinting use
//! keys derived from it under a label of their own.
//!
//! Fingerprints must stay comparable when keys change. So their key is derived once, from the key
//! that a register is made with, and kept in the register from then on, sealed: a register that is
//! lost and made again with the same key makes the same fingerprints.
//!
//! What it does not do: keep keys safe. A key file beside the register is obfuscation, and is called
//! so. One key should not seal more than 2^32 records (random nonces): rotate before.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac::{self, HMAC_SHA256};
use ring::rand::{SecureRandom, SystemRandom};

use super::codec;
use crate::protocol::ids::OperationKey;

/// Bytes of a key.
pub const KEY_LEN: usize = 32;

const VERSION: u8 = 1;
const HEAD_BEFORE_NONCE: usize = 1 + 4;
const HEAD: usize = HEAD_BEFORE_NONCE + NONCE_LEN;

/// What a sealed record holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// The request of an unsettled operation.
    Request,
    /// The answer of a completed one.
    Answer,
}

/// Why a record cannot be sealed or opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The system's source of randomness failed.
    #[error("no randomness")]
    NoRandomness,
    /// It is not a sealed record of a known version.
    #[error("not a sealed record")]
    Malformed,
    /// It was sealed with a key that is not here.
    #[error("sealed with an unknown key ({0:08x})")]
    UnknownKey(u32),
    /// It was changed, cut short, or belongs to another operation.
    #[error("the seal does not match")]
    Broken,
}

/// The key that everything is derived from, as configured or as kept in the key file.
pub struct MasterKey([u8; KEY_LEN]);

impl MasterKey {
    /// Wraps 32 bytes, which must be random.
    pub fn new(bytes: [u8; KEY_LEN]) -> Self {
        Self(bytes)
    }

    /// A fresh one.
    pub fn random() -> Result<Self, SealError> {
        let mut bytes = [0; KEY_LEN];
        SystemRandom::new()
            .fill(&mut bytes)
            .map_err(|_| SealError::NoRandomness)?;
        Ok(Self(bytes))
    }

    pub(super) fn as_bytes(&self) -> &[u8; KEY_LEN] {
        &self.0
    }

    /// Names the key without telling it: stands in front of what it sealed.
    pub fn id(&self) -> u32 {
        let [a, b, c, d, ..] = self.derive("fencepost key id v1");
        u32::from_be_bytes([a, b, c, d])
    }

    /// A key of its own for each use. The master key is uniformly random, so that HMAC alone is a
    /// sound derivation (RFC 5869, 3.3: the extract step may be left out).
    fn derive(&self, label: &str) -> [u8; KEY_LEN] {
        let tag = hmac::sign(&hmac::Key::new(HMAC_SHA256, &self.0), label.as_bytes());
        let mut derived = [0; KEY_LEN];
        for (slot, byte) in derived.iter_mut().zip(tag.as_ref()) {
            *slot = *byte;
        }
        derived
    }
}

impl std::fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MasterKey")
    }
}

/// Seals and opens what a register keeps.
pub struct Sealer {
    writing: SealingKey,
    retired: Vec<SealingKey>,
    fingerprint: [u8; KEY_LEN],
    random: SystemRandom,
}

struct SealingKey {
    id: u32,
    key: LessSafeKey,
}

impl Sealer {
    /// The first key seals, and makes the fingerprints of a new register; `retired` ones only open
    /// what they sealed earlier.
    pub fn new(first: &MasterKey, retired: &[MasterKey]) -> Result<Self, SealError> {
        Ok(Self {
            writing: SealingKey::of(first)?,
            retired: retired
                .iter()
                .map(SealingKey::of)
                .collect::<Result<_, _>>()?,
            fingerprint: first.derive("fencepost fingerprint v1"),
            random: SystemRandom::new(),
        })
    }

    /// The key for fingerprints and principals (HMAC-SHA-256). All sidecars of one register derive
    /// the same.
    pub fn fingerprint_key(&self) -> [u8; KEY_LEN] {
        self.fingerprint
    }

    /// Which key seals.
    pub fn key_id(&self) -> u32 {
        self.writing.id
    }

    /// Is that key among them?
    pub fn knows(&self, id: u32) -> bool {
        self.key_named(id).is_ok()
    }

    /// Seals content of one operation: version, key id, nonce, ciphertext, tag.
    pub fn seal(
        &self,
        content: Content,
        of: &OperationKey,
        plain: &[u8],
    ) -> Result<Vec<u8>, SealError> {
        self.close(bound_to(content, of), plain)
    }

    /// Opens what was sealed for the same operation as the same content.
    pub fn open(
        &self,
        content: Content,
        of: &OperationKey,
        sealed: &[u8],
    ) -> Result<Vec<u8>, SealError> {
        self.unclose(bound_to(content, of), sealed)
    }

    /// The fingerprint key, sealed for the register that keeps it.
    pub(super) fn seal_fingerprint_key(&self, register: u128) -> Result<Vec<u8>, SealError> {
        self.close(bound_to_register(register), &self.fingerprint)
    }

    /// Makes fingerprints from now on with the key that the register keeps.
    pub(super) fn adopt_fingerprint_key(
        &mut self,
        register: u128,
        sealed: &[u8],
    ) -> Result<(), SealError> {
        let key = self.unclose(bound_to_register(register), sealed)?;
        self.fingerprint = key.try_into().map_err(|_| SealError::Malformed)?;
        Ok(())
    }

    fn close(&self, bound: Aad<Vec<u8>>, plain: &[u8]) -> Result<Vec<u8>, SealError> {
        let mut nonce = [0; NONCE_LEN];
        self.random
            .fill(&mut nonce)
            .map_err(|_| SealError::NoRandomness)?;
        let mut sealed = Vec::with_capacity(
            HEAD.saturating_add(plain.len())
                .saturating_add(AES_256_GCM.tag_len()),
        );
        sealed.push(VERSION);
        sealed.extend_from_slice(&self.writing.id.to_be_bytes());
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(plain);
        let (_, in_place) = sealed
            .split_at_mut_checked(HEAD)
            .ok_or(SealError::Malformed)?;
        let tag = self
            .writing
            .key
            .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), bound, in_place)
            .map_err(|_| SealError::Broken)?;
        sealed.extend_from_slice(tag.as_ref());
        Ok(sealed)
    }

    fn unclose(&self, bound: Aad<Vec<u8>>, sealed: &[u8]) -> Result<Vec<u8>, SealError> {
        let key = self.key_named(key_id_of(sealed)?)?;
        let sealed = sealed.get(HEAD_BEFORE_NONCE..);
        let (nonce, sealed) = sealed
            .and_then(<[u8]>::split_first_chunk)
            .ok_or(SealError::Malformed)?;
        let mut opened = sealed.to_vec();
        let length = key
            .open_in_place(Nonce::assume_unique_for_key(*nonce), bound, &mut opened)
            .map_err(|_| SealError::Broken)?
            .len();
        opened.truncate(length);
        Ok(opened)
    }

    fn key_named(&self, id: u32) -> Result<&LessSafeKey, SealError> {
        std::iter::once(&self.writing)
            .chain(&self.retired)
            .find(|known| known.id == id)
            .map(|known| &known.key)
            .ok_or(SealError::UnknownKey(id))
    }
}

impl SealingKey {
    fn of(master: &MasterKey) -> Result<Self, SealError> {
        let key = UnboundKey::new(&AES_256_GCM, &master.derive("fencepost seal v1"))
            .map_err(|_| SealError::Malformed)?;
        Ok(Self {
            id: master.id(),
            key: LessSafeKey::new(key),
        })
    }
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sealer({:08x})", self.writing.id)
    }
}

/// Which key it was sealed with.
pub(super) fn key_id_of(sealed: &[u8]) -> Result<u32, SealError> {
    let (version, rest) = sealed.split_first().ok_or(SealError::Malformed)?;
    if *version != VERSION {
        return Err(SealError::Malformed);
    }
    let id = rest.first_chunk().ok_or(SealError::Malformed)?;
    Ok(u32::from_be_bytes(*id))
}

fn bound_to_register(register: u128) -> Aad<Vec<u8>> {
    let mut bound = b"fencepost register fingerprint key v1".to_vec();
    bound.extend_from_slice(&register.to_be_bytes());
    Aad::from(bound)
}

/// What is authenticated beside the content: which operation, and which kind of content.
fn bound_to(content: Content, of: &OperationKey) -> Aad<Vec<u8>> {
    let mut bound = codec::encode_key(of);
    bound.push(match content {
        Content::Request => b'q',
        Content::Answer => b'a',
    });
    Aad::from(bound)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::ids::{Incarnation, OperationId, Principal, Tenant, UpstreamId};

    fn key(id: &str) -> OperationKey {
        OperationKey {
            tenant: Tenant::new("t"),
            upstream: UpstreamId::new("u"),
            principal: Principal::None,
            id: OperationId::new(id),
            incarnation: Incarnation(0),
        }
    }

    fn sealer(first: u8, retired: &[u8]) -> Sealer {
        let retired: Vec<_> = retired.iter().map(|b| MasterKey::new([*b; 32])).collect();
        Sealer::new(&MasterKey::new([first; 32]), &retired).unwrap()
    }

    #[test]
    fn what_was_sealed_opens_for_its_operation_only() {
        let sealer = sealer(1, &[]);
        let sealed = sealer.seal(Content::Answer, &key("a"), b"secret").unwrap();
        assert!(!sealed.windows(6).any(|window| window == b"secret"));
        let open = |content, key: &OperationKey| sealer.open(content, key, &sealed);
        assert_eq!(open(Content::Answer, &key("a")).unwrap(), b"secret");
        assert_eq!(open(Content::Answer, &key("b")), Err(SealError::Broken));
        assert_eq!(open(Content::Request, &key("a")), Err(SealError::Broken));
        let elsewhere = key("a").within(Incarnation(1));
        assert_eq!(open(Content::Answer, &elsewhere), Err(SealError::Broken));
    }

    #[test]
    fn a_changed_byte_or_a_cut_breaks_the_seal() {
        let sealer = sealer(1, &[]);
        let sealed = sealer.seal(Content::Request, &key("a"), b"secret").unwrap();
        for index in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[index] ^= 1;
            assert!(sealer.open(Content::Request, &key("a"), &changed).is_err());
            assert!(
                sealer
                    .open(Content::Request, &key("a"), &sealed[..index])
                    .is_err()
            );
        }
    }

    #[test]
    fn a_retired_key_opens_and_does_not_seal() {
        let old = sealer(1, &[]);
        let sealed = old.seal(Content::Answer, &key("a"), b"x").unwrap();
        let both = sealer(2, &[1]);
        assert_eq!(
            both.open(Content::Answer, &key("a"), &sealed).unwrap(),
            b"x"
        );
        let newer = both.seal(Content::Answer, &key("a"), b"y").unwrap();
        let id = MasterKey::new([2; 32]).id();
        assert_eq!(
            old.open(Content::Answer, &key("a"), &newer),
            Err(SealError::UnknownKey(id))
        );
    }

    #[test]
    fn the_fingerprint_key_stays_when_the_sealing_key_changes() {
        let old = sealer(1, &[]);
        let kept = old.seal_fingerprint_key(9).unwrap();
        let mut both = sealer(2, &[1]);
        assert_ne!(both.fingerprint_key(), old.fingerprint_key());
        both.adopt_fingerprint_key(9, &kept).unwrap();
        assert_eq!(both.fingerprint_key(), old.fingerprint_key());
        let mut later = sealer(2, &[]);
        let kept_anew = both.seal_fingerprint_key(9).unwrap();
        later.adopt_fingerprint_key(9, &kept_anew).unwrap();
        assert_eq!(later.fingerprint_key(), old.fingerprint_key());
        // Not of another register, and not without the key.
        assert_eq!(
            later.adopt_fingerprint_key(8, &kept_anew),
            Err(SealError::Broken)
        );
        let unknown = MasterKey::new([1; 32]).id();
        assert_eq!(
            later.adopt_fingerprint_key(9, &kept),
            Err(SealError::UnknownKey(unknown))
        );
    }

    #[test]
    fn nonces_and_derived_keys_differ() {
        let sealer = sealer(1, &[]);
        let one = sealer.seal(Content::Answer, &key("a"), b"x").unwrap();
        let other = sealer.seal(Content::Answer, &key("a"), b"x").unwrap();
        assert_ne!(one, other);
        assert_ne!(sealer.fingerprint_key(), [1; 32]);
        let master = MasterKey::new([1; 32]);
        assert_ne!(sealer.fingerprint_key(), master.derive("fencepost seal v1"));
    }
}
