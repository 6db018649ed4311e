//! Several coordinators with etcd, over real processes: three nodes of Debian's etcd, three coordinators, two
//! servers, and a proxy under load while somebody is killed, stopped or cut off.
//!
//! In every scene of those no request through the proxy may fail, no item may be lost, and no cachelet may change hands:
//! nothing that happens to coordinators and to etcd is a reason to move anything.

mod load;
mod scenes;
mod secure;
