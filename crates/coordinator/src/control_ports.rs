//! Asks the control ports of proxies whether their processes are there: see
//! [`ControlAsk`](evenkeel_coordinator_core::ControlAsk), which says when and what follows.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_control::{CONTROL_LINE_LEN_MAX, boot_of};
use evenkeel_coordinator_core::{ControlAnswer, ControlAsk};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::shared_core::SharedCore;

/// Pause between two looks.
const LOOK: Duration = Duration::from_secs(1);

/// Time for an answer. With the pause, a process that has ended has refused three times within some three seconds.
const PATIENCE: Duration = Duration::from_millis(700);

/// Ports that are asked at a time.
const AT_ONCE: usize = 64;

/// Asks those that the core wants to be asked. Never ends.
pub(crate) async fn run(shared: &Arc<SharedCore>) {
    loop {
        sleep(LOOK).await;
        // Who does not lead has nobody to ask.
        let looked = shared.look(|core, now| core.control_asks(now.monotonic));
        let mut asks = looked.await.unwrap_or_default().into_iter();
        let mut asked: JoinSet<_> = asks.by_ref().take(AT_ONCE).map(ask).collect();
        while let Some(answered) = asked.join_next().await {
            if let Some(next) = asks.next() {
                asked.spawn(ask(next));
            }
            let Ok((ask, answer)) = answered else {
                continue;
            };
            let handled = shared.decide(|core, now| core.handle_control(now, &ask, answer));
            // Who does not lead any more is asked no more.
            let _ = handled.await;
        }
    }
}

async fn ask(ask: ControlAsk) -> (ControlAsk, ControlAnswer) {
    let answer = match timeout(PATIENCE, line(&ask)).await {
        Ok(Ok(line)) if boot_of(&line) == Some(ask.boot) => ControlAnswer::SaysBoot,
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
            ControlAnswer::Refuses
        }
        _ => ControlAnswer::SaysNothing,
    };
    (ask, answer)
}

async fn line(ask: &ControlAsk) -> io::Result<Vec<u8>> {
    let stream = TcpStream::connect((ask.host.as_str(), ask.port)).await?;
    let mut line = Vec::new();
    let mut bounded = stream.take(CONTROL_LINE_LEN_MAX as u64);
    bounded.read_to_end(&mut line).await?;
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_control::control_line;
    use evenkeel_types::BootId;
    use std::io::Write;
    use std::net::TcpListener;

    /// What is made of a port that says this; `None` for one that nothing has.
    fn answer_of(says: Option<String>) -> ControlAnswer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let process = match says {
            None => {
                drop(listener);
                None
            }
            Some(line) => Some(std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                stream.write_all(line.as_bytes()).unwrap();
            })),
        };
        let asked = ControlAsk {
            proxy: "p1".into(),
            boot: BootId(7),
            host: "127.0.0.1".into(),
            port,
        };
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().unwrap();
        let (_, answer) = runtime.block_on(ask(asked));
        if let Some(process) = process {
            process.join().unwrap();
        }
        answer
    }

    #[test]
    fn a_process_is_there_if_it_says_so_and_has_ended_if_nothing_has_its_port() {
        let says = |boot| Some(control_line(BootId(boot)));
        // A busy machine may need several tries, as the core makes them.
        let comes = |says: &dyn Fn() -> Option<String>, expected| {
            let mut tries = (0..100).map(|_| answer_of(says()));
            tries.any(|answer| answer == expected)
        };
        assert!(comes(&|| says(7), ControlAnswer::SaysBoot));
        assert_eq!(answer_of(says(8)), ControlAnswer::SaysNothing, "another");
        let long = "x".repeat(4 * CONTROL_LINE_LEN_MAX);
        assert_eq!(answer_of(Some(long)), ControlAnswer::SaysNothing);
        assert!(comes(&|| None, ControlAnswer::Refuses));
    }
}
