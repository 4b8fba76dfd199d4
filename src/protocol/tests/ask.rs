//! A request as most tests make it: said shortly, and changed where it matters.
//!
//! What always holds: it is a whole admission, as one comes from the wire.

use super::*;

/// A request, said shortly.
#[derive(Clone)]
pub(super) struct Ask {
    pub(super) id: &'static str,
    pub(super) token: TokenField,
    pub(super) acquisition: Option<&'static str>,
    pub(super) sequence: Option<u64>,
    pub(super) source: &'static str,
    pub(super) payload: u8,
    pub(super) fingerprint_key: u32,
    pub(super) credentialed: bool,
    pub(super) blind_retry: Option<Millis>,
    pub(super) origin: IdentityOrigin,
    pub(super) follows_incarnation: bool,
    pub(super) fenced: bool,
    pub(super) conditional: bool,
    pub(super) reserved: bool,
    pub(super) policy: Policy,
}

impl Ask {
    /// A fenced, strict effect of an idempotent upstream under an id of its own.
    pub(super) fn fenced(id: &'static str, with: &str) -> Self {
        let mut ask = Self::plain(id);
        ask.fenced = true;
        ask.token = TokenField::Token(token(with));
        ask.policy.fence = Some(FencePolicy {
            token: TokenMode::Require,
            per_generation: PerGeneration::Many,
            require: Ownership::NotOlder,
            if_older_unsettled: IfOlderUnsettled::Wait(Millis(10_000)),
            if_twin: IfTwin::Refuse,
            max_step: None,
        });
        ask
    }

    /// An unfenced effect that commutes.
    pub(super) fn plain(id: &'static str) -> Self {
        Self {
            id,
            token: TokenField::Absent,
            acquisition: None,
            sequence: None,
            source: "caller",
            payload: 1,
            fingerprint_key: 1,
            credentialed: false,
            blind_retry: None,
            origin: IdentityOrigin::Caller,
            follows_incarnation: false,
            fenced: false,
            conditional: false,
            reserved: true,
            policy: Policy {
                fence: None,
                order: Order::Strict,
                settle: idempotent(),
                timeouts: Timeouts {
                    dispatch: Millis(5_000),
                    connect: Millis(5_000),
                    response: Millis(30_000),
                },
                keep_request: true,
            },
        }
    }

    pub(super) fn with(&self, change: impl FnOnce(&mut Self)) -> Self {
        let mut other = self.clone();
        change(&mut other);
        other
    }

    pub(super) fn fence_policy(&mut self) -> &mut FencePolicy {
        self.policy.fence.as_mut().unwrap()
    }

    pub(super) fn payload(&self, payload: u8) -> Self {
        self.with(|ask| ask.payload = payload)
    }

    pub(super) fn key(&self) -> OperationKey {
        key(self.id)
    }

    pub(super) fn command(&self, attempt: AttemptId, at: Moment) -> Admit {
        Admit {
            key: self.key(),
            follows_incarnation: self.follows_incarnation,
            origin: self.origin,
            meaning: Fingerprint {
                key: self.fingerprint_key,
                form: 1,
                digest: [self.payload; 32],
            }
            .into(),
            credentialed: self.credentialed,
            blind_retry: self.blind_retry,
            presented: self.fenced.then(|| Presented {
                resource: resource(),
                token: self.token,
                source: TokenSource::new(self.source),
                acquisition: self.acquisition.map(AcquisitionId::new),
                sequence: self.sequence.map(|n| Sequence::from_value(n).unwrap()),
            }),
            policy: Arc::new(self.policy.clone()),
            request: Arc::new(StoredRequest {
                method: Bytes::from_static(b"PUT"),
                target: Bytes::from_static(b"/"),
                fields: Vec::new(),
                body: Bytes::from(vec![self.payload]),
            }),
            conditional: self.conditional,
            attempt,
            at,
            reserved: self.reserved,
            lease: LeaseFacts::unknown(),
        }
    }
}
