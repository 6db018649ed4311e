//! Copies in racks of what other racks hold, over real processes.

use crate::patience::PATIENCE;
use evenkeel_testkit::racks::{Architecture, Racks, RacksOptions};
use evenkeel_testkit::{Client, Signal, poll_until};

/// The client flags of our marks.
const MARK: u32 = 0x4556_4B4C;

/// Longer than this test takes.
const TTL: &str = "60s";

#[test]
fn a_rack_shows_its_copy_of_what_another_one_holds_and_what_it_has_written_itself() {
    for architecture in [Architecture::Snoop, Architecture::Dir] {
        let mut racks = Racks::start(&RacksOptions {
            architecture,
            local_copies: Some(TTL),
            ..RacksOptions::default()
        });
        let mut clients: Vec<_> = (0..3)
            .map(|rack| Client::connect(racks.address(rack)))
            .collect();
        let shown = |racks: &Racks, rack: usize| {
            let stats = Client::connect(racks.address(rack)).stats("proxy");
            stats["local_copies_shown"]
                .parse::<u64>()
                .expect("a number")
        };
        for key in ["k", "l"] {
            assert_eq!(clients[0].set_with(key, 7, 0, b"first"), "STORED");
            poll_until(PATIENCE, "a copy in rack b", || {
                let before = shown(&racks, 1);
                let value = clients[1].get(key).expect("it is there");
                assert_eq!((value.flags, &value.data[..]), (7, &b"first"[..]));
                (shown(&racks, 1) > before).then_some(())
            });
            let at_place = racks.servers[1].client().get(key).expect("a copy");
            assert!(at_place.flags == MARK && at_place.data.ends_with(b"first"));
        }
        // Written elsewhere it may be shown as it was, and is not where a unique is asked for.
        assert_eq!(clients[2].set("l", b"second"), "STORED");
        let near = clients[1].get("l").expect("it is there").data;
        assert!(near == b"first" || near == b"second", "{near:?}");
        assert_eq!(clients[1].gets("l").expect("it is there").data, b"second");
        assert_eq!(
            clients[1].get("l").expect("it is there").data,
            b"second",
            "a connection has seen it"
        );
        // A connection reads what it has written, be it that nothing is there.
        assert_eq!(
            clients[1].incr("k", 1),
            "CLIENT_ERROR cannot increment or decrement non-numeric value"
        );
        assert_eq!(clients[1].command("append k 0 0 1\r\n!"), "STORED");
        assert_eq!(clients[1].get("k").expect("it is there").data, b"first!");
        assert_eq!(clients[1].delete("k"), "DELETED");
        assert!(clients[1].get("k").is_none());
        // The holder is away, and the copy is shown.
        assert_eq!(clients[0].set("m", b"1"), "STORED");
        poll_until(PATIENCE, "a copy in rack b", || {
            let before = shown(&racks, 1);
            clients[1].get("m").expect("it is there");
            (shown(&racks, 1) > before).then_some(())
        });
        racks.servers[0].process().signal(Signal::Kill);
        racks.servers[0].process().wait(PATIENCE);
        assert_eq!(clients[1].get("m").expect("a copy").data, b"1");
        assert!(clients[2].get("m").is_none(), "rack c has none");
    }
}
