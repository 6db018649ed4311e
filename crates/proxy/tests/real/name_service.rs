//! A name server that knows what a test tells it.

use hickory_resolver::proto::op::{Message, MessageType, OpCode, ResponseCode};
use hickory_resolver::proto::rr::rdata::{A, AAAA, SRV};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard};

/// How it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// What it knows.
    Well,
    /// That there is no such name.
    NoSuchName,
    /// That something is wrong with it (SERVFAIL).
    Failing,
}

/// The server, on loopback by UDP. Its thread ends with the process.
pub struct NameService {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

struct State {
    mood: Mood,
    records: Vec<(Name, RData)>,
    questions: usize,
}

/// Seconds that records are good for.
const TTL: u32 = 1;

impl NameService {
    /// Listens on a free port and knows nothing.
    pub fn start(mood: Mood) -> NameService {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let address = socket.local_addr().expect("it is bound");
        let state = Arc::new(Mutex::new(State {
            mood,
            records: Vec::new(),
            questions: 0,
        }));
        std::thread::spawn({
            let state = Arc::clone(&state);
            move || {
                let mut buffer = [0; 4096];
                while let Ok((len, peer)) = socket.recv_from(&mut buffer) {
                    let Ok(question) = Message::from_vec(&buffer[..len]) else {
                        continue;
                    };
                    let answer = state.lock().expect("no panic").answer(&question);
                    let bytes = answer.to_vec().expect("a message of ours");
                    let _ = socket.send_to(&bytes, peer);
                }
            }
        });
        NameService { address, state }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers so from now on.
    pub fn feel(&self, mood: Mood) {
        self.state().mood = mood;
    }

    /// The addresses of a name, instead of those that it had.
    pub fn set_addresses(&self, name: &str, addresses: &[IpAddr]) {
        let data = addresses.iter().map(|address| match address {
            IpAddr::V4(address) => RData::A(A(*address)),
            IpAddr::V6(address) => RData::AAAA(AAAA(*address)),
        });
        self.set(name, data.collect());
    }

    /// The services of a name, instead of those that it had: weight, port, target.
    pub fn set_services(&self, name: &str, services: &[(u16, u16, &str)]) {
        let data = services
            .iter()
            .map(|(weight, port, target)| RData::SRV(SRV::new(0, *weight, *port, parse(target))));
        self.set(name, data.collect());
    }

    fn set(&self, name: &str, data: Vec<RData>) {
        let name = parse(name);
        let mut state = self.state();
        state.records.retain(|(of, _)| *of != name);
        state
            .records
            .extend(data.into_iter().map(|data| (name.clone(), data)));
    }

    /// How many questions it has been asked.
    pub fn questions(&self) -> usize {
        self.state().questions
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic")
    }
}

impl State {
    fn answer(&mut self, question: &Message) -> Message {
        self.questions += 1;
        let mut answer = Message::new(question.metadata.id, MessageType::Response, OpCode::Query);
        answer.metadata.recursion_desired = true;
        answer.metadata.recursion_available = true;
        let Some(query) = question.queries.first() else {
            answer.metadata.response_code = ResponseCode::FormErr;
            return answer;
        };
        answer.add_query(query.clone());
        match self.mood {
            Mood::Well => {
                let is_asked = |name: &Name, data: &RData| {
                    *name == *query.name() && data.record_type() == query.query_type()
                };
                for (name, data) in &self.records {
                    if is_asked(name, data) {
                        answer.add_answer(Record::from_rdata(name.clone(), TTL, data.clone()));
                    }
                }
            }
            Mood::NoSuchName => answer.metadata.response_code = ResponseCode::NXDomain,
            Mood::Failing => answer.metadata.response_code = ResponseCode::ServFail,
        }
        answer
    }
}

fn parse(name: &str) -> Name {
    let mut name = Name::from_str(name).expect("a name");
    name.set_fqdn(true);
    name
}

#[test]
fn it_answers_what_it_was_told() {
    let service = NameService::start(Mood::Well);
    service.set_addresses("a.test", &["10.0.0.1".parse().expect("an address")]);
    let mut question = Message::new(7, MessageType::Query, OpCode::Query);
    let query = hickory_resolver::proto::op::Query::query(parse("a.test"), RecordType::A);
    question.add_query(query);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let bytes = question.to_vec().expect("a message");
    socket.send_to(&bytes, service.address()).expect("sent");
    let mut buffer = [0; 512];
    let len = socket.recv(&mut buffer).expect("an answer");
    let answer = Message::from_vec(&buffer[..len]).expect("a message");
    assert_eq!((answer.metadata.id, answer.answers.len()), (7, 1));
    assert_eq!(service.questions(), 1);
}
