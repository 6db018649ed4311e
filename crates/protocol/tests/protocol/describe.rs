//! Requests and replies as one line of text, so that tables of expectations can be read.

use evenkeel_protocol::{Admin, KeyScratch, MetaReply, Reply, Request, SentKey, Store};

/// Bytes as they would stand in a string literal.
pub fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

fn key(sent: SentKey<'_>) -> String {
    let decoded = text(sent.decode(&mut KeyScratch::default()));
    if sent.base64 {
        format!("base64({decoded})")
    } else {
        decoded
    }
}

fn noreply(noreply: bool) -> &'static str {
    if noreply { " noreply" } else { "" }
}

/// A request with everything that a server would act on.
pub fn request(request: &Request<'_>) -> String {
    match request {
        Request::Get { keys, with_cas } => {
            let keys: Vec<String> = keys.iter().map(text).collect();
            format!(
                "{} {}",
                if *with_cas { "gets" } else { "get" },
                keys.join(",")
            )
        }
        Request::GetAndTouch {
            exptime,
            keys,
            with_cas,
        } => {
            let keys: Vec<String> = keys.into_iter().map(text).collect();
            let verb = if *with_cas { "gats" } else { "gat" };
            format!("{verb} {exptime} {}", keys.join(","))
        }
        Request::Store(Store {
            verb,
            key,
            flags,
            exptime,
            value,
            noreply: quiet,
        }) => format!(
            "{verb:?} {} {flags} {exptime} [{}]{}",
            text(key),
            text(value),
            noreply(*quiet)
        ),
        Request::Delete {
            key,
            noreply: quiet,
        } => format!("delete {}{}", text(key), noreply(*quiet)),
        Request::Arithmetic {
            key,
            delta,
            direction,
            noreply: quiet,
        } => {
            format!("{direction:?} {} {delta}{}", text(key), noreply(*quiet))
        }
        Request::Touch {
            key,
            exptime,
            noreply: quiet,
        } => {
            format!("touch {} {exptime}{}", text(key), noreply(*quiet))
        }
        Request::FlushAll {
            delay,
            noreply: quiet,
        } => {
            format!("flush_all {delay:?}{}", noreply(*quiet))
        }
        Request::Version => "version".into(),
        Request::Verbosity {
            level,
            noreply: quiet,
        } => format!("verbosity {level}{}", noreply(*quiet)),
        Request::Stats { arguments } => format!("stats [{}]", text(arguments)),
        Request::Quit => "quit".into(),
        Request::Admin(admin) => match admin {
            Admin::LruCrawler(arguments) => format!("lru_crawler [{}]", text(arguments)),
            Admin::Watch(arguments) => format!("watch [{}]", text(arguments)),
            Admin::Slabs(arguments) => format!("slabs [{}]", text(arguments)),
            Admin::Lru(arguments) => format!("lru [{}]", text(arguments)),
            Admin::ConfigGet(name) => format!("config get [{}]", text(name)),
            Admin::DebugTime(arguments) => format!("debugtime [{}]", text(arguments)),
            other => format!("{other:?}"),
        },
        Request::MetaGet(meta) => format!("mg {} {}", key(meta.key), text(meta.flags.raw())),
        Request::MetaSet(meta) => {
            format!(
                "ms {} {} [{}]",
                key(meta.key),
                text(meta.flags.raw()),
                text(meta.value)
            )
        }
        Request::MetaDelete(meta) => format!("md {} {}", key(meta.key), text(meta.flags.raw())),
        Request::MetaArithmetic(meta) => format!("ma {} {}", key(meta.key), text(meta.flags.raw())),
        Request::MetaNoop => "mn".into(),
        Request::MetaDebug { key: sent } => format!("me {}", key(*sent)),
        Request::Hello(hello) => {
            format!("hello {} {} {:?}", hello.version, hello.epoch, hello.from)
        }
        Request::Migrate(migrate) => format!("{migrate:?}"),
    }
}

/// A reply with everything that a client would act on.
pub fn reply(reply: &Reply<'_>) -> String {
    match reply {
        Reply::Value(value) => {
            format!(
                "VALUE {} {} [{}] {:?}",
                text(value.key),
                value.flags,
                text(value.data),
                value.cas
            )
        }
        Reply::Stat { name, value } => format!("STAT {}=[{}]", text(name), text(value)),
        Reply::Version(rest) => format!("VERSION [{}]", text(rest)),
        Reply::ClientError(rest) => format!("CLIENT_ERROR [{}]", text(rest)),
        Reply::ServerError(rest) => format!("SERVER_ERROR [{}]", text(rest)),
        Reply::Other(line) => format!("other [{}]", text(line)),
        Reply::MetaDebug { key, facts } => format!("ME {} [{}]", text(key), text(facts)),
        Reply::Meta(MetaReply {
            status,
            value,
            flags,
        }) => {
            format!("{status:?} {:?} {}", value.map(text), text(flags.raw()))
        }
        other => format!("{other:?}"),
    }
}
