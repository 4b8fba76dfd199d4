//! Adyen's signatures: of each item of a notification, within the item.
//!
//! What always holds: every item is signed, or none of the notification is believed. Only eight fields of an item
//! are signed, joined without escapes: what is handed on of it is those eight and nothing else, and a join that
//! could be taken apart in two ways is refused.
//!
//! What it does not do: judge time. None is signed: an item that is played again is believed again, for as long
//! as its secret is, and says what was known.
//!
//! Source: <https://docs.adyen.com/development-resources/webhooks/secure-webhooks/verify-hmac-signatures>, and
//! their libraries (`HmacSignature.php`, `hmacValidator.ts`), which escape nothing.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use ring::hmac;
use serde_json::{Map, Value, json};

use super::{MOST_LISTED, Unproven, any_signed};
use crate::config::{Secret, Signature};

/// An item as it was signed.
struct Item {
    psp_reference: String,
    original_reference: String,
    merchant_account_code: String,
    /// The merchant's own word: the only one that may have colons in it.
    merchant_reference: String,
    value: String,
    currency: String,
    event_code: String,
    success: String,
}

/// The items of a notification, each as far as it is signed.
pub(super) fn verify(signature: &Signature, body: &[u8]) -> Result<Vec<Bytes>, Unproven> {
    // One that cannot be read verifies nothing; `check` refuses it.
    let secrets = signature.secrets.iter().filter_map(Secret::hex_key);
    let keys: Vec<hmac::Key> = secrets
        .map(|secret| hmac::Key::new(hmac::HMAC_SHA256, &secret))
        .collect();
    let content: Value = serde_json::from_slice(body).map_err(|_| Unproven::Unreadable)?;
    let items = content.get("notificationItems").and_then(Value::as_array);
    let items = items.ok_or(Unproven::Unsigned)?;
    if items.is_empty() {
        return Err(Unproven::Unsigned);
    }
    if items.len() > MOST_LISTED {
        return Err(Unproven::Unreadable);
    }
    items.iter().map(|item| of_item(&keys, item)).collect()
}

fn of_item(keys: &[hmac::Key], item: &Value) -> Result<Bytes, Unproven> {
    let item = item.get("NotificationRequestItem");
    let item = item.and_then(Value::as_object);
    let item = item.ok_or(Unproven::Unreadable)?;
    let sent = item.get("additionalData");
    let sent = sent.and_then(|data| data.get("hmacSignature"));
    let sent = sent.and_then(Value::as_str).ok_or(Unproven::Unsigned)?;
    let sent = BASE64.decode(sent).map_err(|_| Unproven::Unreadable)?;
    let item = Item::of(item).ok_or(Unproven::Unreadable)?;
    any_signed(keys, &[sent], &[item.joined().as_bytes()])?;
    Ok(item.alone())
}

impl Item {
    /// `None`: a field is no text, or the join would not say where it begins and ends.
    fn of(item: &Map<String, Value>) -> Option<Self> {
        let plain = |name: &str| text(item.get(name)).filter(|text| !text.contains(':'));
        let amount = item.get("amount");
        let of_amount = |name: &str| {
            let text = text(amount.and_then(|amount| amount.get(name)));
            text.filter(|text| !text.contains(':'))
        };
        Some(Self {
            psp_reference: plain("pspReference")?,
            original_reference: plain("originalReference")?,
            merchant_account_code: plain("merchantAccountCode")?,
            merchant_reference: text(item.get("merchantReference"))?,
            value: of_amount("value")?,
            currency: of_amount("currency")?,
            event_code: plain("eventCode")?,
            success: plain("success")?,
        })
    }

    fn joined(&self) -> String {
        [
            &self.psp_reference,
            &self.original_reference,
            &self.merchant_account_code,
            &self.merchant_reference,
            &self.value,
            &self.currency,
            &self.event_code,
            &self.success,
        ]
        .map(String::as_str)
        .join(":")
    }

    /// What rules read: nothing of it that is not signed. Every member is a text.
    fn alone(&self) -> Bytes {
        let item = json!({
            "pspReference": self.psp_reference,
            "originalReference": self.original_reference,
            "merchantAccountCode": self.merchant_account_code,
            "merchantReference": self.merchant_reference,
            "amount": { "value": self.value, "currency": self.currency },
            "eventCode": self.event_code,
            "success": self.success,
        });
        item.to_string().into()
    }
}

/// As it is signed: what is not there is nothing.
fn text(value: Option<&Value>) -> Option<String> {
    match value {
        None | Some(Value::Null) => Some(String::new()),
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Bool(truth)) => Some(truth.to_string()),
        // A fraction is written in more than one way.
        Some(Value::Number(number)) if number.is_i64() || number.is_u64() => {
            Some(number.to_string())
        }
        Some(Value::Number(_) | Value::Array(_) | Value::Object(_)) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Scheme;
    use std::time::Duration;

    /// The keys and digests of Adyen's own documentation and libraries' tests.
    const OF_DOCS: (&str, &str) = (
        "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056",
        "coqCmt/IZ4E3CzPvMY8zTjQVL5hYJUiBRg8UU+iCWo0=",
    );
    const OF_LIBRARY: (&str, &str) = (
        "DFB1EB5485895CFA84146406857104ABB4CBCABDC8AAF103A624C8F6A3EAAB00",
        "Ny9gS2veKo5E4w8/OL6xz1/wvT/hYkAXy1xNc/QvO4I=",
    );

    fn signed_with(secrets: &[&str]) -> Signature {
        Signature {
            scheme: Scheme::Adyen,
            secrets: secrets.iter().map(|text| Secret::new(*text)).collect(),
            tolerance: Duration::ZERO,
        }
    }

    fn item() -> Value {
        json!({
            "pspReference": "7914073381342284",
            "merchantAccountCode": "TestMerchant",
            "merchantReference": "TestPayment-1407325143704",
            "amount": { "value": 1130, "currency": "EUR" },
            "eventCode": "AUTHORISATION",
            "success": "true",
            "reason": "not signed",
        })
    }

    fn bearing(mut item: Value, digest: &str) -> Value {
        item["additionalData"] = json!({ "hmacSignature": digest, "authCode": "not signed" });
        json!({ "NotificationRequestItem": item })
    }

    fn notification(items: &[Value]) -> Vec<u8> {
        let content = json!({ "live": "false", "notificationItems": items });
        content.to_string().into_bytes()
    }

    fn proven(secret: &str, items: &[Value]) -> Result<Vec<Bytes>, Unproven> {
        verify(&signed_with(&[secret]), &notification(items))
    }

    /// By our own join, to sign what is not in the documentation.
    fn sign(item: &Value) -> String {
        let key = Secret::new(OF_DOCS.0).hex_key().unwrap();
        let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        let joined = Item::of(item.as_object().unwrap()).unwrap().joined();
        BASE64.encode(hmac::sign(&key, joined.as_bytes()))
    }

    #[test]
    fn the_vendors_own_examples_are_believed() {
        for (secret, digest) in [OF_DOCS, OF_LIBRARY] {
            let alone = proven(secret, &[bearing(item(), digest)]).unwrap();
            let expected = json!({
                "pspReference": "7914073381342284",
                "originalReference": "",
                "merchantAccountCode": "TestMerchant",
                "merchantReference": "TestPayment-1407325143704",
                "amount": { "value": "1130", "currency": "EUR" },
                "eventCode": "AUTHORISATION",
                "success": "true",
            });
            let read: Value = serde_json::from_slice(&alone[0]).unwrap();
            assert_eq!(read, expected, "only what is signed");
        }
        let both = signed_with(&[OF_LIBRARY.0, OF_DOCS.0]);
        let body = notification(&[bearing(item(), OF_DOCS.1)]);
        assert!(verify(&both, &body).is_ok());
    }

    #[test]
    fn every_signed_field_counts_and_every_item() {
        let changes: [(&str, Value); 7] = [
            ("pspReference", json!("7914073381342285")),
            ("originalReference", json!("7914073381342284")),
            ("merchantAccountCode", json!("Other")),
            ("merchantReference", json!("another")),
            ("amount", json!({ "value": 1131, "currency": "EUR" })),
            ("eventCode", json!("REFUND")),
            ("success", json!("false")),
        ];
        let genuine = bearing(item(), OF_DOCS.1);
        for (name, value) in changes {
            let mut forged = item();
            forged[name] = value;
            let forged = bearing(forged, OF_DOCS.1);
            let told = proven(OF_DOCS.0, std::slice::from_ref(&forged));
            assert_eq!(told, Err(Unproven::Forged), "{name}");
            // One bad item, and none is believed.
            let told = proven(OF_DOCS.0, &[genuine.clone(), forged]);
            assert_eq!(told, Err(Unproven::Forged), "{name}");
        }
        let second = json!({ "eventCode": "CAPTURE", "success": true });
        let digest = sign(&second);
        let both = proven(OF_DOCS.0, &[genuine, bearing(second, &digest)]);
        assert_eq!(both.unwrap().len(), 2);
    }

    /// `A:B` and `C` join as `A` and `B:C` do.
    #[test]
    fn a_join_that_can_be_taken_apart_in_two_ways_is_refused() {
        let mut own = item();
        own["merchantReference"] = json!("order:42:1");
        let digest = sign(&own);
        assert!(proven(OF_DOCS.0, &[bearing(own.clone(), &digest)]).is_ok());
        let mut shifted = own.clone();
        shifted["merchantAccountCode"] = json!("TestMerchant:order");
        shifted["merchantReference"] = json!("42:1");
        let told = proven(OF_DOCS.0, &[bearing(shifted, &digest)]);
        assert_eq!(told, Err(Unproven::Unreadable));
        own["merchantReference"] = json!("order:42");
        own["amount"]["value"] = json!("1:1130");
        let told = proven(OF_DOCS.0, &[bearing(own, &digest)]);
        assert_eq!(told, Err(Unproven::Unreadable));
    }

    #[test]
    fn what_is_not_signed_is_not_believed() {
        let unsigned = json!({ "NotificationRequestItem": item() });
        for (body, why) in [
            (notification(&[unsigned]), Unproven::Unsigned),
            (notification(&[]), Unproven::Unsigned),
            (b"{}".to_vec(), Unproven::Unsigned),
            (b"no JSON".to_vec(), Unproven::Unreadable),
            (notification(&[json!({})]), Unproven::Unreadable),
            (
                notification(&[bearing(item(), "no Base64!")]),
                Unproven::Unreadable,
            ),
            (notification(&[bearing(item(), "")]), Unproven::Forged),
        ] {
            let told = verify(&signed_with(&[OF_DOCS.0]), &body);
            assert_eq!(told, Err(why), "{}", String::from_utf8_lossy(&body));
        }
        let many = vec![bearing(item(), OF_DOCS.1); MOST_LISTED + 1];
        assert_eq!(proven(OF_DOCS.0, &many), Err(Unproven::Unreadable));
        // A key that is not hexadecimal verifies nothing.
        let told = proven("no hex", &[bearing(item(), OF_DOCS.1)]);
        assert_eq!(told, Err(Unproven::Forged));
    }
}
