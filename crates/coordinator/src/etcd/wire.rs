//! Messages of etcd's API, as protobuf has them on the wire: those that are used here, with the fields that are used.
//!
//! A field that is left out has its default, for etcd as for us, and a field that is not known is skipped. The names
//! and numbers are those of etcd's `rpc.proto` and `kv.proto`.

use prost::{Message, Oneof};

/// What stands before every answer.
#[derive(Clone, Message)]
pub(super) struct ResponseHeader {
    /// That of the store when the request was executed.
    #[prost(int64, tag = "3")]
    pub(super) revision: i64,
}

/// A key with its value.
#[derive(Clone, Message)]
pub(super) struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(int64, tag = "2")]
    pub(super) create_revision: i64,
    #[prost(int64, tag = "3")]
    pub(super) mod_revision: i64,
    #[prost(bytes = "vec", tag = "5")]
    pub(super) value: Vec<u8>,
}

/// Asks for keys.
#[derive(Clone, Message)]
pub(super) struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    /// The first key that is not asked for; empty: only `key` is.
    #[prost(bytes = "vec", tag = "2")]
    range_end: Vec<u8>,
    #[prost(bool, tag = "8")]
    keys_only: bool,
}

impl RangeRequest {
    /// One key.
    pub(super) fn one(key: String) -> Self {
        RangeRequest {
            key: key.into_bytes(),
            ..RangeRequest::default()
        }
    }

    /// All keys that begin so, without their values. The prefix is not empty.
    pub(super) fn names(prefix: String) -> Self {
        let key = prefix.into_bytes();
        let mut range_end = key.clone();
        // No byte of a text is 255, so that the last one has a successor.
        if let Some(last) = range_end.last_mut() {
            *last += 1;
        }
        RangeRequest {
            key,
            range_end,
            keys_only: true,
        }
    }
}

/// The keys that were asked for.
#[derive(Clone, Message)]
pub(super) struct RangeResponse {
    #[prost(message, repeated, tag = "2")]
    pub(super) kvs: Vec<KeyValue>,
}

/// Writes a key.
#[derive(Clone, Message)]
pub(super) struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
    /// The lease with which the key ends; 0: none.
    #[prost(int64, tag = "3")]
    lease: i64,
}

/// Deletes a key.
#[derive(Clone, Message)]
pub(super) struct DeleteRangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
}

/// One operation of a transaction.
#[derive(Clone, Message)]
pub(super) struct RequestOp {
    #[prost(oneof = "Operation", tags = "1, 2, 3")]
    request: Option<Operation>,
}

#[derive(Clone, Oneof)]
enum Operation {
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    #[prost(message, tag = "2")]
    Put(PutRequest),
    #[prost(message, tag = "3")]
    DeleteRange(DeleteRangeRequest),
}

impl RequestOp {
    fn new(operation: Operation) -> Self {
        RequestOp {
            request: Some(operation),
        }
    }

    pub(super) fn get(key: String) -> Self {
        RequestOp::new(Operation::Range(RangeRequest::one(key)))
    }

    /// A key that ends with this lease; 0: with none.
    pub(super) fn put(key: String, value: Vec<u8>, lease: i64) -> Self {
        RequestOp::new(Operation::Put(PutRequest {
            key: key.into_bytes(),
            value,
            lease,
        }))
    }

    pub(super) fn delete(key: String) -> Self {
        let key = key.into_bytes();
        RequestOp::new(Operation::DeleteRange(DeleteRangeRequest { key }))
    }
}

/// What became of one operation. Only that of a read says something.
#[derive(Clone, Message)]
pub(super) struct ResponseOp {
    #[prost(message, optional, tag = "1")]
    pub(super) range: Option<RangeResponse>,
}

/// One condition of a transaction: equality, which is the comparison numbered 0, left out.
#[derive(Clone, Message)]
pub(super) struct Compare {
    #[prost(int32, tag = "2")]
    target: i32,
    #[prost(bytes = "vec", tag = "3")]
    key: Vec<u8>,
    #[prost(oneof = "Expected", tags = "5, 6")]
    expected: Option<Expected>,
}

#[derive(Clone, Oneof)]
enum Expected {
    #[prost(int64, tag = "5")]
    CreateRevision(i64),
    #[prost(int64, tag = "6")]
    ModRevision(i64),
}

impl Compare {
    const CREATE: i32 = 1;
    const MOD: i32 = 2;

    /// The key was created in this revision; 0: there is none.
    pub(super) fn create_revision(key: String, revision: i64) -> Self {
        Compare {
            target: Compare::CREATE,
            key: key.into_bytes(),
            expected: Some(Expected::CreateRevision(revision)),
        }
    }

    /// The key was last written in this revision; 0: there is none.
    pub(super) fn mod_revision(key: String, revision: i64) -> Self {
        Compare {
            target: Compare::MOD,
            key: key.into_bytes(),
            expected: Some(Expected::ModRevision(revision)),
        }
    }
}

/// A transaction: one list of operations if all comparisons hold, the other if not.
#[derive(Clone, Message)]
pub(super) struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    pub(super) compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub(super) success: Vec<RequestOp>,
    #[prost(message, repeated, tag = "3")]
    pub(super) failure: Vec<RequestOp>,
}

/// What became of a transaction.
#[derive(Clone, Message)]
pub(super) struct TxnResponse {
    #[prost(message, optional, tag = "1")]
    header: Option<ResponseHeader>,
    #[prost(bool, tag = "2")]
    pub(super) succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub(super) responses: Vec<ResponseOp>,
}

impl TxnResponse {
    /// That in which it was executed; 0 if etcd did not say.
    pub(super) fn revision(&self) -> i64 {
        self.header.as_ref().map_or(0, |header| header.revision)
    }
}

/// Asks for a lease.
#[derive(Clone, Message)]
pub(super) struct LeaseGrantRequest {
    /// In seconds.
    #[prost(int64, tag = "1")]
    pub(super) ttl: i64,
}

/// A lease that was granted, or renewed; both answers number these fields alike.
#[derive(Clone, Message)]
pub(super) struct Lease {
    #[prost(int64, tag = "2")]
    pub(super) id: i64,
    /// In seconds; 0 in a renewal's answer: there is no such lease any more.
    #[prost(int64, tag = "3")]
    pub(super) ttl: i64,
}

/// Names a lease, to give it back or to renew it.
#[derive(Clone, Message)]
pub(super) struct LeaseRequest {
    #[prost(int64, tag = "1")]
    pub(super) id: i64,
}

/// An answer of which nothing is read.
#[derive(Clone, Message)]
pub(super) struct Done {}

/// Asks for a token.
#[derive(Clone, Message)]
#[prost(skip_debug)]
pub(super) struct AuthenticateRequest {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) password: String,
}

/// The token.
#[derive(Clone, Message)]
#[prost(skip_debug)]
pub(super) struct AuthenticateResponse {
    #[prost(string, tag = "2")]
    pub(super) token: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    // A field is its number times eight plus its type, 0 for a number and 2 for bytes of a length, then its value.

    #[test]
    fn a_transaction_compares_even_with_zero() {
        let txn = TxnRequest {
            compare: vec![Compare::create_revision("k".to_owned(), 0)],
            success: vec![RequestOp::put("k".to_owned(), b"me".to_vec(), 300)],
            failure: vec![RequestOp::get("k".to_owned())],
        };
        let expected = [
            &[0x0a, 7, 0x10, 1, 0x1a, 1, b'k', 0x28, 0][..],
            // 300 is 2 times 128 and 44.
            &[0x12, 12, 0x12, 10, 0x0a, 1, b'k', 0x12, 2, b'm', b'e'],
            &[0x18, 0xac, 0x02],
            &[0x1a, 5, 0x0a, 3, 0x0a, 1, b'k'],
        ];
        assert_eq!(txn.encode_to_vec(), expected.concat());
    }

    #[test]
    fn the_last_write_is_compared_and_keys_are_deleted() {
        let txn = TxnRequest {
            compare: vec![Compare::mod_revision("k".to_owned(), 5)],
            success: vec![RequestOp::delete("d".to_owned())],
            failure: Vec::new(),
        };
        let expected = [
            &[0x0a, 7, 0x10, 2, 0x1a, 1, b'k', 0x30, 5][..],
            &[0x12, 5, 0x1a, 3, 0x0a, 1, b'd'],
        ];
        assert_eq!(txn.encode_to_vec(), expected.concat());
    }

    #[test]
    fn names_are_asked_for_up_to_the_prefixs_successor() {
        let expected = [
            0x0a, 3, b'/', b'a', b'/', 0x12, 3, b'/', b'a', b'0', 0x40, 1,
        ];
        let names = RangeRequest::names("/a/".to_owned());
        assert_eq!(names.encode_to_vec(), expected);
        let one = RangeRequest::one("/a".to_owned());
        assert_eq!(one.encode_to_vec(), [0x0a, 2, b'/', b'a']);
    }

    #[test]
    fn leases_and_users_are_named() {
        let id = 300;
        assert_eq!(LeaseRequest { id }.encode_to_vec(), [0x08, 0xac, 0x02]);
        assert_eq!(LeaseGrantRequest { ttl: 2 }.encode_to_vec(), [0x08, 2]);
        let user = AuthenticateRequest {
            name: "u".to_owned(),
            password: "pw".to_owned(),
        };
        let expected = [0x0a, 1, b'u', 0x12, 2, b'p', b'w'];
        assert_eq!(user.encode_to_vec(), expected);
    }

    #[test]
    fn answers_are_read_and_what_is_not_known_is_skipped() {
        // Header: cluster 1, member 2, revision 7, term 3.
        let header = [0x0a, 8, 0x08, 1, 0x10, 2, 0x18, 7, 0x20, 3];
        // Version 4 and lease 9 are skipped.
        let kv = [
            0x0a, 1, b'k', 0x10, 5, 0x18, 6, 0x20, 4, 0x2a, 2, b'm', b'e', 0x30, 9,
        ];
        // A read with one key and its count, then a write.
        let responses = [
            &[0x1a, 21, 0x0a, 19, 0x12, 15][..],
            &kv,
            &[0x20, 1, 0x1a, 2, 0x12, 0],
        ];
        let bytes = [&header[..], &[0x10, 1], &responses.concat()].concat();
        let answer = TxnResponse::decode(&*bytes).unwrap();
        assert!(answer.succeeded);
        assert_eq!(answer.revision(), 7);
        let read = answer.responses[0].range.as_ref().unwrap();
        let [kv] = &read.kvs[..] else {
            panic!("{read:?}")
        };
        assert_eq!((kv.create_revision, kv.mod_revision), (5, 6));
        assert_eq!((&kv.key[..], &kv.value[..]), (&b"k"[..], &b"me"[..]));
        assert!(answer.responses[1].range.is_none());

        let bytes = [&header[..], &[0x10, 0xac, 0x02, 0x18, 2]].concat();
        let lease = Lease::decode(&*bytes).unwrap();
        assert_eq!((lease.id, lease.ttl), (300, 2));
        let bytes = [&header[..], &[0x12, 3, b't', b'o', b'k']].concat();
        let answer = AuthenticateResponse::decode(&*bytes).unwrap();
        assert_eq!(answer.token, "tok");
    }
}
