//! A client of one node of etcd: what is asked of it here, and nothing else of its API.

use std::time::Duration;

use http::uri::PathAndQuery;
use prost::Message;
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::metadata::AsciiMetadataValue;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use super::wire::{
    AuthenticateRequest, AuthenticateResponse, Done, Lease, LeaseGrantRequest, LeaseRequest,
    RangeRequest, RangeResponse, TxnRequest, TxnResponse,
};

/// What etcd asks for before it answers.
#[derive(Default)]
pub(super) struct Access {
    /// Name and password.
    pub(super) user: Option<(String, String)>,
    /// For addresses with `https://`, and only for them.
    pub(super) tls: Option<ClientTlsConfig>,
}

/// Why etcd has not done what it was asked for.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The address or the certificates cannot be used.
    #[error(transparent)]
    Transport(#[from] tonic::transport::Error),
    /// etcd refused, or there is no connection.
    #[error(transparent)]
    Status(#[from] Status),
    /// The lease is not there any more.
    #[error("the lease is gone")]
    LeaseGone,
    /// This is no etcd that we know.
    #[error("an answer that etcd does not give: {0}")]
    Odd(&'static str),
}

/// A connection; clones share it.
#[derive(Clone)]
pub(super) struct Client {
    channel: Channel,
    /// Says who we are, in every request.
    token: Option<AsciiMetadataValue>,
}

impl Client {
    /// Asks for a token if there is a user; otherwise the first call is what connects. Waits for a connection no
    /// longer than this.
    pub(super) async fn connect(
        url: &str,
        access: &Access,
        limit: Duration,
    ) -> Result<Self, Error> {
        let mut endpoint = Endpoint::from_shared(url.to_owned())?.connect_timeout(limit);
        if let Some(tls) = &access.tls {
            endpoint = endpoint.tls_config(tls.clone())?;
        }
        let mut client = Client {
            channel: endpoint.connect_lazy(),
            token: None,
        };
        if let Some((name, password)) = access.user.clone() {
            let user = AuthenticateRequest { name, password };
            let answer: AuthenticateResponse =
                client.call("/etcdserverpb.Auth/Authenticate", user).await?;
            let token = answer.token.parse();
            client.token = Some(token.map_err(|_| Error::Odd("a token that is no plain text"))?);
        }
        Ok(client)
    }

    pub(super) async fn range(&self, range: RangeRequest) -> Result<RangeResponse, Error> {
        self.call("/etcdserverpb.KV/Range", range).await
    }

    pub(super) async fn txn(&self, txn: TxnRequest) -> Result<TxnResponse, Error> {
        self.call("/etcdserverpb.KV/Txn", txn).await
    }

    /// A lease of this many seconds; etcd may grant more.
    pub(super) async fn grant(&self, ttl: i64) -> Result<Lease, Error> {
        let request = LeaseGrantRequest { ttl };
        self.call("/etcdserverpb.Lease/LeaseGrant", request).await
    }

    pub(super) async fn revoke(&self, id: i64) -> Result<(), Error> {
        let request = LeaseRequest { id };
        let Done {} = self
            .call("/etcdserverpb.Lease/LeaseRevoke", request)
            .await?;
        Ok(())
    }

    /// Renews a lease once.
    pub(super) async fn renew(&self, id: i64) -> Result<(), Error> {
        // etcd's stream of renewals is meant for many. Our end of it is open until the first is answered, for a proxy
        // of etcd takes its end for that of the whole; and it ends when this call does, with `more`.
        let (more, requests) = tokio::sync::mpsc::channel(1);
        let _ = more.try_send(LeaseRequest { id });
        let requests = ReceiverStream::new(requests);
        let path = PathAndQuery::from_static("/etcdserverpb.Lease/LeaseKeepAlive");
        let mut grpc = self.ready().await?;
        let answers = grpc.streaming(self.request(requests), path, ProstCodec::default());
        let answer: Option<Lease> = answers.await?.into_inner().message().await?;
        match answer {
            Some(lease) if lease.ttl > 0 => Ok(()),
            Some(_) => Err(Error::LeaseGone),
            None => Err(Error::Odd("no renewal")),
        }
    }

    /// One request, one answer.
    async fn call<Q, A>(&self, path: &'static str, message: Q) -> Result<A, Error>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let path = PathAndQuery::from_static(path);
        let mut grpc = self.ready().await?;
        let answer = grpc.unary(self.request(message), path, ProstCodec::default());
        Ok(answer.await?.into_inner())
    }

    async fn ready(&self) -> Result<Grpc<Channel>, Error> {
        let mut grpc = Grpc::new(self.channel.clone());
        grpc.ready().await?;
        Ok(grpc)
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(token) = &self.token {
            request.metadata_mut().insert("token", token.clone());
        }
        request
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::RequestOp;
    use super::*;
    use axum::body::Bytes;
    use h2::server::SendResponse;
    use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

    /// What a node was asked.
    #[derive(Debug)]
    struct Asked {
        path: String,
        token: Option<String>,
        message: Vec<u8>,
        /// Whether the client had ended its side before it was answered.
        was_ended: bool,
    }

    /// What it answers: a message, or why it refuses.
    type Answer = Result<Vec<u8>, &'static str>;

    /// A node with one connection that gives these answers in turn.
    async fn node(answers: Vec<Answer>) -> (String, UnboundedReceiver<Asked>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (told, asked) = unbounded_channel();
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let mut connection = h2::server::handshake(stream).await.unwrap();
            let mut answers = answers.into_iter();
            while let Some(Ok((request, respond))) = connection.accept().await {
                let answer = answers.next().expect("a request more than answers");
                tokio::spawn(serve(request, respond, answer, told.clone()));
            }
        });
        (url, asked)
    }

    async fn serve(
        request: http::Request<h2::RecvStream>,
        mut respond: SendResponse<Bytes>,
        answer: Answer,
        told: UnboundedSender<Asked>,
    ) {
        let (head, mut body) = request.into_parts();
        let is_stream = head.uri.path().ends_with("KeepAlive");
        // Five bytes stand before a message: whether it is compressed, and its length.
        let mut frame = Vec::new();
        let is_whole = |frame: &[u8]| {
            let len = frame.get(1..5).map(|len| len.try_into().unwrap());
            len.is_some_and(|len| frame.len() - 5 == u32::from_be_bytes(len) as usize)
        };
        while !is_whole(&frame) {
            frame.extend(body.data().await.unwrap().unwrap());
        }
        if is_stream {
            // The client's turn, as often as it can need it to end its side.
            for _ in 0..1000 {
                tokio::task::yield_now().await;
            }
        } else {
            // What ends it may be a part with nothing in it.
            while let Some(rest) = body.data().await {
                assert!(rest.unwrap().is_empty());
            }
        }
        let was_ended = body.is_end_stream();
        let headers = http::Response::builder().header("content-type", "application/grpc");
        match answer {
            Ok(message) => {
                let headers = headers.body(()).unwrap();
                let mut sending = respond.send_response(headers, false).unwrap();
                let len = u32::try_from(message.len()).unwrap().to_be_bytes();
                let frame = [&[0][..], &len, &message].concat();
                sending.send_data(frame.into(), false).unwrap();
                if !is_stream {
                    let mut trailers = http::HeaderMap::new();
                    trailers.insert("grpc-status", 0.into());
                    sending.send_trailers(trailers).unwrap();
                }
            }
            Err(why) => {
                let headers = headers
                    .header("grpc-status", 16)
                    .header("grpc-message", why);
                let headers = headers.body(()).unwrap();
                respond.send_response(headers, true).unwrap();
            }
        }
        // Nothing of a stream is left behind.
        while let Some(Ok(rest)) = body.data().await {
            assert!(rest.is_empty());
        }
        let token = head.headers.get("token");
        told.send(Asked {
            path: head.uri.path().to_owned(),
            token: token.map(|token| token.to_str().unwrap().to_owned()),
            message: frame.split_off(5),
            was_ended,
        })
        .unwrap();
    }

    async fn next(asked: &mut UnboundedReceiver<Asked>) -> Asked {
        let next = tokio::time::timeout(Duration::from_secs(60), asked.recv());
        next.await.expect("a request that ends").unwrap()
    }

    async fn connect(url: &str, access: &Access) -> Result<Client, Error> {
        Client::connect(url, access, Duration::from_secs(60)).await
    }

    fn user() -> Access {
        Access {
            user: Some(("u".to_owned(), "pw".to_owned())),
            tls: None,
        }
    }

    #[tokio::test]
    async fn a_user_shows_its_token() {
        let token = AuthenticateResponse {
            token: "tok.1".to_owned(),
        };
        let answers = vec![Ok(token.encode_to_vec()), Ok(vec![0x10, 1]), Ok(Vec::new())];
        let (url, mut asked) = node(answers).await;
        let client = connect(&url, &user()).await.unwrap();
        let txn = TxnRequest {
            success: vec![RequestOp::get("k".to_owned())],
            ..TxnRequest::default()
        };
        assert!(client.txn(txn.clone()).await.unwrap().succeeded);
        client.revoke(7).await.unwrap();

        let first = next(&mut asked).await;
        assert_eq!(first.path, "/etcdserverpb.Auth/Authenticate");
        assert_eq!(first.token, None);
        assert_eq!(first.message, [0x0a, 1, b'u', 0x12, 2, b'p', b'w']);
        let second = next(&mut asked).await;
        assert_eq!(second.path, "/etcdserverpb.KV/Txn");
        assert_eq!(second.token.as_deref(), Some("tok.1"));
        assert_eq!(second.message, txn.encode_to_vec());
        let third = next(&mut asked).await;
        assert_eq!(third.path, "/etcdserverpb.Lease/LeaseRevoke");
        assert_eq!(third.token.as_deref(), Some("tok.1"));
        assert_eq!(third.message, [0x08, 7]);
    }

    #[tokio::test]
    async fn what_etcd_refuses_is_told_in_its_words() {
        let why = "etcdserver: authentication failed, invalid user ID or password";
        let (url, _asked) = node(vec![Err(why)]).await;
        match connect(&url, &user()).await.err() {
            Some(Error::Status(status)) => assert_eq!(status.message(), why),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_token_that_cannot_be_shown_is_no_token() {
        let token = AuthenticateResponse {
            token: "a\nb".to_owned(),
        };
        let (url, _asked) = node(vec![Ok(token.encode_to_vec())]).await;
        let error = connect(&url, &user()).await.err();
        assert!(matches!(error, Some(Error::Odd(_))), "{error:?}");
    }

    #[tokio::test]
    async fn a_renewal_says_whether_the_lease_is_there() {
        let lease = |ttl| Lease { id: 300, ttl }.encode_to_vec();
        let (url, mut asked) = node(vec![Ok(lease(2)), Ok(lease(0)), Err("no leader")]).await;
        let client = connect(&url, &Access::default()).await.unwrap();
        client.renew(300).await.unwrap();
        let gone = client.renew(300).await;
        assert!(matches!(gone, Err(Error::LeaseGone)), "{gone:?}");
        let failed = client.renew(300).await;
        assert!(matches!(failed, Err(Error::Status(_))), "{failed:?}");
        for _ in 0..2 {
            let asked = next(&mut asked).await;
            assert_eq!(asked.path, "/etcdserverpb.Lease/LeaseKeepAlive");
            assert_eq!(asked.message, [0x08, 0xac, 0x02]);
            assert!(!asked.was_ended, "a proxy of etcd would renew nothing");
        }
    }

    #[tokio::test]
    async fn certificates_that_cannot_be_used_are_told() {
        let pem = |what| format!("-----BEGIN {what}-----\nAA==\n-----END {what}-----\n");
        let identity = tonic::transport::Identity::from_pem(pem("CERTIFICATE"), pem("PRIVATE KEY"));
        let access = Access {
            user: None,
            tls: Some(ClientTlsConfig::new().identity(identity)),
        };
        let error = connect("https://127.0.0.1:1", &access).await.err();
        assert!(matches!(error, Some(Error::Transport(_))), "{error:?}");
    }
}
