//! What rows are found by: short digests of identities.
//!
//! What always holds: equal identities have equal digests, without a key: they are stored, and stay the
//! same for ever. A digest finds a row; whoever reads it compares what it stands for (`wants`), so that two
//! identities with one digest, which nobody has ever seen, are a fault and never a confusion.
//!
//! What it does not do: stand in for an identity in a decision.

use ring::digest::{Context, SHA256};

use crate::protocol::command::Admit;
use crate::protocol::ids::{Fingerprint, OperationKey, Principal, ResourceName, Tenant};
use crate::protocol::operation::Operation;
use crate::store::codec;

/// Bytes of a digest: half of a SHA-256.
const LENGTH: usize = 16;

pub(super) type Digest = [u8; LENGTH];

/// What equal requests without a key have in common: caller, upstream, resource, fingerprint. It is looked for
/// within the tenant: whoever made the digest up elsewhere is not found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Shared {
    pub(super) tenant: Tenant,
    pub(super) digest: Digest,
}

/// Of an operation.
pub(super) fn of(key: &OperationKey) -> Vec<u8> {
    let mut context = Context::new(&SHA256);
    context.update(&codec::encode_key(key));
    digest(context).to_vec()
}

/// The same as a number.
pub(super) fn number(key: &OperationKey) -> u128 {
    let digest = of(key);
    digest
        .first_chunk()
        .map_or(0, |it| u128::from_be_bytes(*it))
}

/// Of what an admission without a key looks for.
pub(super) fn shared_by_equals(admit: &Admit) -> Shared {
    let resource = admit.presented.as_ref().map(|shown| &shown.resource.name);
    shared(&admit.key, resource, &admit.meaning.fingerprint)
}

/// Of what it finds.
pub(super) fn shared_with_equals(operation: &Operation) -> Shared {
    let resource = operation.place.as_ref().map(|place| &place.resource);
    shared(&operation.key, resource, &operation.fingerprint)
}

fn shared(key: &OperationKey, resource: Option<&ResourceName>, form: &Fingerprint) -> Shared {
    let mut context = Context::new(&SHA256);
    let mut put = |bytes: &[u8]| {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        context.update(&length.to_be_bytes());
        context.update(bytes);
    };
    put(key.tenant.as_str().as_bytes());
    put(key.upstream.as_str().as_bytes());
    put(&principal_column(key.principal));
    put(resource.map_or("", ResourceName::as_str).as_bytes());
    put(&[u8::from(resource.is_some())]);
    put(&form.key.to_be_bytes());
    put(&[form.form]);
    put(&form.digest);
    Shared {
        tenant: key.tenant.clone(),
        digest: digest(context),
    }
}

/// A principal as a column: empty for none.
pub(super) fn principal_column(principal: Principal) -> Vec<u8> {
    match principal {
        Principal::None => Vec::new(),
        Principal::Hashed(digest) => digest.to_vec(),
    }
}

fn digest(context: Context) -> Digest {
    let whole = context.finish();
    whole.as_ref().first_chunk().copied().unwrap_or([0; LENGTH])
}
