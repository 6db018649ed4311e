//! Maps that come without end; the other stories of moves are in `scripts/moves.txt`.

use super::world::{World, key_of, map};

#[test]
fn a_request_is_put_to_servers_again_as_often_as_maps_come() {
    let mut world = World::evenkeel(2);
    let (key, _) = key_of(1, 2);
    let client = world.client();
    world.send(client, format!("get {key}\r\nget {key} t\r\n"));
    for epoch in 2..400 {
        // No map names that server.
        for line in world
            .asked(101)
            .lines()
            .filter(|line| line.starts_with("mg"))
        {
            assert!(line.contains(&key), "{line}");
            world.reply(101, format!("MOVED {epoch} 9 0\r\n"));
        }
        world.set_map(&map(epoch, 2, |_| 1));
    }
    assert!(world.core.stats().requests_parked > 300);
    world.wait_ms(5000);
    assert!(world.received(client).starts_with("END\r\n"));
}
