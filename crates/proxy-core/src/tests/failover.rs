//! More than can be made up for; the other stories of failover are in `scripts/failover.txt`.

use super::world::{Connecting, World};
use crate::limits::INVALIDATION_KEYS_MAX;

#[test]
fn a_server_that_missed_too_much_is_emptied_only_where_that_is_allowed() {
    for allowed in [false, true] {
        let mut world = World::memcached_with(1, |config| {
            config.pools[0].settings.flush_on_return = allowed;
        });
        world.connecting(101, Connecting::Refuses);
        let client = world.client();
        for i in 0..=INVALIDATION_KEYS_MAX {
            world.send(client, format!("delete {i} noreply\r\n"));
        }
        world.come_back(101);
        let mut asked = world.asked(101);
        let counters = world.core.backends()[0].counters;
        assert_eq!(counters.missed_unnoted, 1);
        if allowed {
            assert_eq!(asked, "flush_all\r\n");
            assert_eq!((counters.flushed, counters.unfenced), (1, 0));
        } else {
            let deletes = |asked: &str| asked.matches("delete ").count();
            let mut more = deletes(&asked);
            while more > 0 {
                world.reply(101, "NOT_FOUND\r\n".repeat(more));
                let next = world.asked(101);
                more = deletes(&next);
                asked += &next;
            }
            assert_eq!(deletes(&asked), INVALIDATION_KEYS_MAX);
            assert_eq!((counters.flushed, counters.unfenced), (0, 1));
        }
    }
}
