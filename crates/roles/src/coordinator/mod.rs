//! The core of the coordinator: members, heartbeats, the map.
