//! An API server for tests, with one StatefulSet. Time passes in it with what is asked: each question about a pod is a step of its
//! controller.

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

/// Steps until a pod that comes is ready, and until one that goes is gone.
const STEPS: u32 = 3;

/// A pod: the steps that it has been there, or has been going.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Pod {
    Comes(u32),
    Goes(u32),
}

/// What the API server does with a question.
#[derive(Clone, Debug, Default)]
pub(super) enum Manner {
    #[default]
    Answers,
    /// Takes it, and says nothing.
    Hangs,
    /// Gives these bytes after the status line.
    Says(u16, String),
    /// Does what it is asked, and breaks the connection off.
    Breaks,
}

/// Everything that is known there.
#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) start: u32,
    pub(super) replicas: u32,
    pub(super) annotation: Option<String>,
    pub(super) service: &'static str,
    pub(super) version: u64,
    pub(super) pods: BTreeMap<u32, Pod>,
    /// Of a question that begins with these words, once for each.
    pub(super) manners: Vec<(&'static str, Manner)>,
    /// Somebody else patches before each of as many patches.
    pub(super) others_are_faster: u32,
    /// No pod becomes ready.
    pub(super) is_full: bool,
    pub(super) asked: Vec<String>,
    pub(super) authorization: Vec<String>,
}

#[derive(Clone, Debug)]
pub(super) struct Fake {
    pub(super) address: SocketAddr,
    world: Arc<Mutex<World>>,
}

impl Fake {
    /// `tls` when it speaks that.
    pub(super) fn start(world: World, tls: Option<Arc<ServerConfig>>) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let world = Arc::new(Mutex::new(world));
        let fake = Fake { address, world };
        let shared = fake.clone();
        // It ends with the process of the tests.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (fake, tls) = (shared.clone(), tls.clone());
                thread::spawn(move || match tls {
                    None => fake.serve(stream),
                    Some(tls) => {
                        let connection = ServerConnection::new(tls).expect("a connection");
                        fake.serve(StreamOwned::new(connection, stream));
                    }
                });
            }
        });
        fake
    }

    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().expect("no test has panicked in it")
    }

    /// One question of a connection; a caller who does not trust it is gone.
    fn serve(&self, stream: impl Read + Write) {
        let mut reader = BufReader::new(stream);
        let (mut line, mut len) = (String::new(), 0);
        if !matches!(reader.read_line(&mut line), Ok(1..)) {
            return;
        }
        let asked = line.trim_end().trim_end_matches(" HTTP/1.1").to_owned();
        loop {
            let mut header = String::new();
            if !matches!(reader.read_line(&mut header), Ok(1..)) {
                return;
            }
            let header = header.trim_end().to_ascii_lowercase();
            match header.split_once(": ") {
                None => break,
                Some(("content-length", it)) => len = it.parse().expect("a length"),
                Some(("authorization", it)) => self.world().authorization.push(it.to_owned()),
                Some(_) => {}
            }
        }
        let mut body = vec![0; len];
        reader.read_exact(&mut body).expect("a body");
        let manner = self.world().manner(&asked);
        let (status, said) = match manner {
            Manner::Answers => self.world().answer(&asked, &body),
            Manner::Says(status, said) => (status, said),
            Manner::Breaks => {
                self.world().answer(&asked, &body);
                return;
            }
            Manner::Hangs => {
                // Until the caller has gone.
                let _ = reader.read(&mut [0]);
                return;
            }
        };
        let len = said.len();
        let head =
            format!("HTTP/1.1 {status} X\r\ncontent-length: {len}\r\nconnection: close\r\n\r\n");
        let stream = reader.get_mut();
        // A caller that has heard enough is gone.
        let _ = stream.write_all(head.as_bytes());
        let _ = stream.write_all(said.as_bytes());
        let _ = stream.flush();
    }
}

impl World {
    fn manner(&mut self, asked: &str) -> Manner {
        self.asked.push(asked.to_owned());
        let place = (self.manners.iter()).position(|(words, _)| asked.starts_with(words));
        place.map_or(Manner::Answers, |place| self.manners.remove(place).1)
    }

    fn end(&self) -> u32 {
        self.start + self.replicas
    }

    fn answer(&mut self, asked: &str, body: &[u8]) -> (u16, String) {
        const SET: &str = "/apis/apps/v1/namespaces/caches/statefulsets/cache";
        const POD: &str = "GET /api/v1/namespaces/caches/pods/cache-";
        if let Some(ordinal) = asked.strip_prefix(POD) {
            self.step();
            return self.pod(ordinal.parse().expect("an ordinal"));
        }
        if asked == format!("GET {SET}") {
            return (200, self.set());
        }
        assert_eq!(asked, format!("PATCH {SET}"));
        let patch: Value = serde_json::from_slice(body).expect("a patch");
        if self.others_are_faster > 0 {
            self.others_are_faster -= 1;
            self.version += 1;
        }
        let version = json!(self.version.to_string());
        if patch["metadata"]["resourceVersion"] != version {
            let message = "the object has been modified";
            return (
                409,
                json!({"kind": "Status", "message": message}).to_string(),
            );
        }
        self.version += 1;
        self.replicas =
            u32::try_from(patch["spec"]["replicas"].as_u64().expect("a number")).unwrap();
        let annotation = &patch["metadata"]["annotations"][super::ANNOTATION];
        self.annotation = annotation.as_str().map(str::to_owned);
        (200, self.set())
    }

    fn set(&self) -> String {
        let mut metadata = json!({"name": "cache", "resourceVersion": self.version.to_string()});
        if let Some(annotation) = &self.annotation {
            metadata["annotations"] = json!({ super::ANNOTATION: annotation });
        }
        let spec = json!({
            "replicas": self.replicas,
            "serviceName": self.service,
            "ordinals": {"start": self.start},
        });
        json!({"kind": "StatefulSet", "metadata": metadata, "spec": spec}).to_string()
    }

    fn pod(&self, ordinal: u32) -> (u16, String) {
        let Some(pod) = self.pods.get(&ordinal) else {
            let message = format!("pods \"cache-{ordinal}\" not found");
            return (
                404,
                json!({"kind": "Status", "message": message}).to_string(),
            );
        };
        let is_ready = matches!(pod, Pod::Comes(steps) if *steps >= STEPS && !self.is_full);
        let ready = if is_ready { "True" } else { "False" };
        let mut metadata = json!({"name": format!("cache-{ordinal}")});
        if let Pod::Goes(_) = pod {
            metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        let conditions =
            json!([{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": ready}]);
        (
            200,
            json!({"metadata": metadata, "status": {"conditions": conditions}}).to_string(),
        )
    }

    /// The controller makes pods that are missing, and has those go that are too many.
    fn step(&mut self) {
        let wanted = self.start..self.end();
        for ordinal in wanted.clone() {
            self.pods.entry(ordinal).or_insert(Pod::Comes(0));
        }
        self.pods.retain(|ordinal, pod| {
            *pod = match *pod {
                Pod::Comes(_) if !wanted.contains(ordinal) => Pod::Goes(0),
                Pod::Comes(steps) => Pod::Comes(steps + 1),
                Pod::Goes(steps) => Pod::Goes(steps + 1),
            };
            *pod != Pod::Goes(STEPS)
        });
    }
}
