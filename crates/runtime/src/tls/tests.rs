//! A client and a [`TlsStream`] over a line that takes and gives bytes in odd pieces.

use super::*;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::rc::Rc;
use std::sync::Arc;

/// One end of a line. Each call moves at most as many bytes as one of `pieces` says; a zero is a
/// `WouldBlock`.
struct End {
    incoming: Rc<RefCell<VecDeque<u8>>>,
    outgoing: Rc<RefCell<VecDeque<u8>>>,
    pieces: Vec<usize>,
    calls: usize,
    closed: Rc<RefCell<bool>>,
}

impl End {
    fn piece(&mut self) -> io::Result<usize> {
        self.calls += 1;
        // Mixed, so that a rhythm of the calls never meets the same piece each time.
        let mixed = (self.calls as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
        match self.pieces[mixed as usize % self.pieces.len()] {
            0 => Err(ErrorKind::WouldBlock.into()),
            piece => Ok(piece),
        }
    }
}

impl Read for End {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let piece = self.piece()?.min(buffer.len());
        let mut incoming = self.incoming.borrow_mut();
        let count = piece.min(incoming.len());
        if count == 0 && !*self.closed.borrow() {
            return Err(ErrorKind::WouldBlock.into());
        }
        for (to, byte) in buffer.iter_mut().zip(incoming.drain(..count)) {
            *to = byte;
        }
        Ok(count)
    }
}

impl Write for End {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let count = self.piece()?.min(buffer.len());
        self.outgoing.borrow_mut().extend(&buffer[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Files of an authority and of a server certificate that it signed for `localhost`.
struct Files {
    dir: tempfile::TempDir,
    config: TlsConfig,
    root: rustls::pki_types::CertificateDer<'static>,
}

impl Files {
    fn new() -> Files {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key"))
            .expect("an authority");
        let key = KeyPair::generate().expect("a key");
        let certificate = CertificateParams::new(vec!["localhost".to_owned()])
            .expect("a name")
            .signed_by(&key, &authority)
            .expect("signed");
        let (chain, key_file) = (dir.path().join("chain.pem"), dir.path().join("key.pem"));
        std::fs::write(&chain, certificate.pem()).expect("written");
        std::fs::write(&key_file, key.serialize_pem()).expect("written");
        Files {
            config: TlsConfig {
                files: TlsFiles {
                    chain,
                    key: Some(key_file),
                    authorities: None,
                },
                clients: ClientCertificates::Unasked,
                version: TlsVersion::V12,
                ciphers: None,
                session_cache: false,
            },
            root: authority.der().clone(),
            dir,
        }
    }

    fn client(&self) -> ClientConnection {
        let mut roots = RootCertStore::empty();
        roots.add(self.root.clone()).expect("an authority");
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").expect("a name");
        ClientConnection::new(Arc::new(config), name).expect("a client")
    }
}

type Queue = Rc<RefCell<VecDeque<u8>>>;

fn line(pieces: &[usize]) -> (End, Queue, Queue, Rc<RefCell<bool>>) {
    let (to_server, to_client) = (Queue::default(), Queue::default());
    let closed = Rc::new(RefCell::new(false));
    let end = End {
        incoming: Rc::clone(&to_server),
        outgoing: Rc::clone(&to_client),
        pieces: pieces.to_vec(),
        calls: 0,
        closed: Rc::clone(&closed),
    };
    (end, to_server, to_client, closed)
}

/// Lets the client send and receive everything that is there. What it read comes back.
fn move_client(client: &mut ClientConnection, to_server: &Queue, to_client: &Queue) -> Vec<u8> {
    let mut sent = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut sent).expect("a vector takes all");
    }
    to_server.borrow_mut().extend(sent);
    let mut read = Vec::new();
    loop {
        let bytes: Vec<u8> = to_client.borrow_mut().drain(..).collect();
        if bytes.is_empty() {
            return read;
        }
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            client.read_tls(&mut rest).expect("room");
            client.process_new_packets().expect("the server is right");
            let mut plain = Vec::new();
            if let Err(error) = client.reader().read_to_end(&mut plain) {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
            }
            read.extend(plain);
        }
    }
}

/// The server sends back what it reads, through a queue, as a connection does.
fn echo_through(pieces: &[usize], total: usize) {
    let files = Files::new();
    let contexts = TlsContexts::load(&files.config).expect("sound files");
    let (end, to_server, to_client, _) = line(pieces);
    let mut server = TlsStream::new(end, &contexts.default).expect("a connection");
    let mut client = files.client();
    let question: Vec<u8> = (0..total).map(|i| (i * 31 % 251) as u8).collect();
    let (mut asked, mut queue, mut answer) = (0, VecDeque::new(), Vec::new());
    let mut buffer = [0; 4096];
    for _ in 0..3_000_000 {
        if asked < total {
            asked += client.writer().write(&question[asked..]).expect("room");
        }
        answer.extend(move_client(&mut client, &to_server, &to_client));
        match server.read(&mut buffer) {
            Ok(count) => queue.extend(&buffer[..count]),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        let bytes: &[u8] = queue.make_contiguous();
        if !bytes.is_empty() {
            match server.write(bytes) {
                Ok(count) => drop(queue.drain(..count)),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
        server.flush().expect("the line stands");
        if answer.len() == total {
            break;
        }
    }
    assert!(!server.is_handshaking());
    assert_eq!(answer.len(), total, "pieces {pieces:?}");
    assert!(answer == question, "pieces {pieces:?}");
    assert_eq!(server.failure(), None);
}

#[test]
fn bytes_come_back_whatever_the_pieces() {
    echo_through(&[1 << 20], 300_000);
    echo_through(&[0, 1, 7, 0, 0, 300], 20_000);
    echo_through(&[1, 0], 3_000);
    echo_through(&[5000, 0, 16_000, 3, 0], 150_000);
}

/// What `write` reported as written has left: nothing is kept back that a closed connection would
/// lose.
#[test]
fn a_write_is_reported_once_its_records_have_left() {
    let files = Files::new();
    let contexts = TlsContexts::load(&files.config).expect("sound files");
    let (end, to_server, to_client, _) = line(&[1 << 20]);
    let mut server = TlsStream::new(end, &contexts.default).expect("a connection");
    let mut client = files.client();
    let mut buffer = [0; 64];
    while client.is_handshaking() || server.is_handshaking() {
        move_client(&mut client, &to_server, &to_client);
        let _ = server.read(&mut buffer);
    }
    // From here on the line is full after a thousand bytes.
    server.flush().expect("the line stands");
    move_client(&mut client, &to_server, &to_client);
    let data = [7u8; 10_000];
    let mut got = Vec::new();
    server_pieces(&mut server, vec![1000, 0]);
    let mut calls = 0;
    let written = loop {
        calls += 1;
        match server.write(&data) {
            Ok(count) => break count,
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        got.extend(move_client(&mut client, &to_server, &to_client));
    };
    assert!(calls > 5, "the line was full in between");
    got.extend(move_client(&mut client, &to_server, &to_client));
    assert_eq!((written, got.len()), (10_000, 10_000));
}

fn server_pieces(server: &mut TlsStream<End>, pieces: Vec<usize>) {
    server.stream_mut().pieces = pieces;
}

#[test]
fn what_is_no_tls_is_refused_and_counted_as_a_failed_handshake() {
    let files = Files::new();
    let contexts = TlsContexts::load(&files.config).expect("sound files");
    let (end, to_server, _, _) = line(&[1 << 20]);
    let mut server = TlsStream::new(end, &contexts.default).expect("a connection");
    to_server.borrow_mut().extend(b"get a key\r\n");
    let mut buffer = [0; 64];
    let error = server.read(&mut buffer).expect_err("no handshake");
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    assert_eq!(server.failure(), Some(TlsFailure::Handshake));
    assert!(server.read(&mut buffer).is_err(), "it stays refused");
}

#[test]
fn a_client_that_leaves_early_ends_the_connection() {
    let files = Files::new();
    let contexts = TlsContexts::load(&files.config).expect("sound files");
    let (end, _, _, closed) = line(&[1 << 20]);
    let mut server = TlsStream::new(end, &contexts.default).expect("a connection");
    *closed.borrow_mut() = true;
    assert_eq!(server.read(&mut [0; 64]).expect("an end"), 0);
    assert!(server.has_ended());
    assert_eq!(server.failure(), Some(TlsFailure::Handshake));
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let files = Files::new();
    let with = |change: &dyn Fn(&mut TlsConfig)| {
        let mut config = files.config.clone();
        change(&mut config);
        TlsContexts::load(&config)
    };
    let chain = files.config.files.chain.clone();
    let told = |change: &dyn Fn(&mut TlsConfig)| with(change).expect_err("unusable");
    assert!(told(&|c| c.files.chain = "/nonexistent/c.pem".into()).contains("/nonexistent/c.pem"));
    assert!(told(&|c| c.files.key = None).contains("no private key"));
    assert!(told(&|c| c.files.authorities = Some("/nonexistent/a.pem".into())).contains("a.pem"));
    assert!(told(&|c| c.clients = ClientCertificates::Required).contains("authorities"));
    assert!(told(&|c| c.ciphers = Some("RC4-MD5".into())).contains("RC4-MD5"));
    let other = KeyPair::generate().expect("a key").serialize_pem();
    let wrong = files.dir.path().join("wrong.pem");
    std::fs::write(&wrong, other).expect("written");
    let error = told(&|c| c.files.key = Some(wrong.clone()));
    assert!(error.contains("chain.pem"), "{error}");
    let known = with(&|c| c.files.authorities = Some(chain.clone())).expect("sound");
    assert!(known.mutual.is_some());
}
