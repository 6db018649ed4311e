//! What is left of leases; the stories of hot keys are in `scripts/hot_keys.txt`.

use super::world::{World, key_of};

#[test]
fn a_connection_that_closes_leaves_nothing_of_its_reads() {
    let mut world = World::evenkeel(3);
    let (key, _) = key_of(1, 3);
    let [client, other] = [(); 2].map(|()| world.client());
    let get = format!("get {key}\r\n");
    world.send(client, &get);
    world.reply(101, "VA 1 f0 c10 G1\r\na\r\n");
    let has_leases = |world: &World| {
        world
            .core
            .pools
            .iter()
            .any(|(_, pool)| !pool.leases.is_empty())
    };
    assert!(has_leases(&world));
    world.send(client, get.repeat(2));
    world.close(client);
    world.wait_ms(960);
    world.send(other, &get);
    assert!(!has_leases(&world));
}
