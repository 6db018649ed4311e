//! Answers in the words of servers, and in those of applications.

use super::*;
use evenkeel_protocol::{Limits, ReplyOutcome, parse_reply};

fn shown(show: Show, question: &str, raw: &str) -> Result<(String, Tally), Unfit> {
    let ReplyOutcome::Reply { reply, consumed } = parse_reply(raw.as_bytes(), &Limits::default())
    else {
        panic!("not a reply: {raw:?}");
    };
    assert_eq!(consumed, raw.len());
    let mut out = Vec::new();
    let (question, raw) = (question.as_bytes(), raw.as_bytes());
    let tally = compose(&mut out, show, None, question, &reply, raw)?;
    Ok((String::from_utf8(out).unwrap(), tally))
}

const GET: Show = Show::Meta {
    verb: Verb::Get,
    quiet: false,
    unasked: Unasked {
        cas: true,
        flags: false,
        value: false,
    },
};

#[test]
fn the_same_answer_in_meta_and_in_classic_words() {
    let value = Show::Value {
        with_cas: false,
        last: true,
    };
    let cases = [
        (
            value,
            "VA 2 f7 c9 G3\r\nab\r\n",
            "VALUE k 7 2\r\nab\r\n",
            Tally::GetHit,
        ),
        (
            value,
            "VALUE k 7 2\r\nab\r\n",
            "VALUE k 7 2\r\nab\r\n",
            Tally::GetHit,
        ),
        (value, "EN V5\r\n", "", Tally::GetMiss),
        (
            Show::Store { is_cas: false },
            "HD\r\n",
            "STORED\r\n",
            Tally::Stored,
        ),
        (
            Show::Store { is_cas: false },
            "NS\r\n",
            "NOT_STORED\r\n",
            Tally::NotStored,
        ),
        (
            Show::Store { is_cas: true },
            "HD\r\n",
            "STORED\r\n",
            Tally::CasHit,
        ),
        (
            Show::Store { is_cas: true },
            "EX\r\n",
            "EXISTS\r\n",
            Tally::CasBad,
        ),
        (
            Show::Store { is_cas: true },
            "NF\r\n",
            "NOT_FOUND\r\n",
            Tally::CasMiss,
        ),
        (
            Show::Store { is_cas: true },
            "NOT_FOUND\r\n",
            "NOT_FOUND\r\n",
            Tally::CasMiss,
        ),
        (Show::Delete, "HD\r\n", "DELETED\r\n", Tally::DeleteHit),
        (
            Show::Delete,
            "NOT_FOUND\r\n",
            "NOT_FOUND\r\n",
            Tally::DeleteMiss,
        ),
        (
            Show::Number { up: true },
            "VA 2\r\n42\r\n",
            "42\r\n",
            Tally::IncrHit,
        ),
        (
            Show::Number { up: false },
            "41\r\n",
            "41\r\n",
            Tally::DecrHit,
        ),
        (
            Show::Number { up: false },
            "NF\r\n",
            "NOT_FOUND\r\n",
            Tally::DecrMiss,
        ),
        (Show::Touch, "HD\r\n", "TOUCHED\r\n", Tally::TouchHit),
        (Show::Touch, "EN\r\n", "NOT_FOUND\r\n", Tally::TouchMiss),
        (Show::Nothing, "NS\r\n", "", Tally::NotStored),
        (Show::Nothing, "NOT_STORED\r\n", "", Tally::NotStored),
        (Show::Nothing, "SERVER_ERROR x\r\n", "", Tally::Refused),
        (
            Show::Delete,
            "SERVER_ERROR x\r\n",
            "SERVER_ERROR x\r\n",
            Tally::Refused,
        ),
    ];
    for (show, raw, expected, tally) in cases {
        let question = "mg k v f c Y1\r\n";
        assert_eq!(
            shown(show, question, raw),
            Ok((expected.into(), tally)),
            "{show:?} {raw:?}"
        );
    }
}

#[test]
fn a_classic_get_with_cas_takes_it_from_the_meta_answer() {
    let show = Show::Value {
        with_cas: true,
        last: false,
    };
    let (text, _) = shown(
        show,
        "mg key v f c\r\n",
        "VA 0 f0 c18446744073709551615\r\n\r\n",
    )
    .unwrap();
    assert_eq!(text, "VALUE key 0 0 18446744073709551615\r\n\r\n");
}

#[test]
fn what_only_agreed_peers_may_see_is_left_out_and_the_rest_keeps_its_order() {
    let cases = [
        ("VA 1 s1 kfoo c12 G2 V12\r\nx\r\n", "VA 1 s1 kfoo\r\nx\r\n"),
        ("HD t-1 f3 c5 W\r\n", "HD t-1 f3 W\r\n"),
        ("EN Oabc kfoo V99\r\n", "EN Oabc kfoo\r\n"),
    ];
    for (raw, expected) in cases {
        assert_eq!(shown(GET, "mg foo\r\n", raw).unwrap().0, expected);
    }
    let asked = Show::Meta {
        verb: Verb::Get,
        quiet: false,
        unasked: Unasked::default(),
    };
    assert_eq!(
        shown(asked, "mg foo\r\n", "HD c5 G1\r\n").unwrap().0,
        "HD c5\r\n"
    );
}

#[test]
fn a_quiet_get_hides_its_miss_alone() {
    let quiet = Show::Meta {
        verb: Verb::Get,
        quiet: true,
        unasked: Unasked::default(),
    };
    assert_eq!(
        shown(quiet, "mg k\r\n", "EN\r\n").unwrap(),
        (String::new(), Tally::GetMiss)
    );
    assert_eq!(shown(quiet, "mg k\r\n", "HD\r\n").unwrap().0, "HD\r\n");
}

#[test]
fn an_answer_to_another_question_is_noticed() {
    for (show, raw) in [
        (Show::Delete, "STORED\r\n"),
        (Show::Store { is_cas: false }, "EN\r\n"),
        (GET, "NF\r\n"),
        (GET, "VALUE k 0 1\r\nx\r\n"),
        (Show::Nothing, "VALUE k 0 1\r\nx\r\n"),
        (Show::Touch, "HELLO\r\n"),
        (
            Show::Value {
                with_cas: false,
                last: true,
            },
            "VA 1\r\nx\r\n",
        ),
    ] {
        assert_eq!(
            shown(show, "mg k v f c\r\n", raw),
            Err(Unfit),
            "{show:?} {raw:?}"
        );
    }
}

#[test]
fn a_miss_for_want_of_a_server_echoes_what_a_real_one_would() {
    for (question, expected) in [
        ("mg foo v c Y7\r\n", "EN\r\n"),
        ("mg foo Oxy v k c Y7\r\n", "EN Oxy kfoo\r\n"),
        ("mg Zm9v b k c Y7\r\n", "EN kZm9v b\r\n"),
    ] {
        let mut out = Vec::new();
        compose_miss(&mut out, GET, None, question.as_bytes());
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
