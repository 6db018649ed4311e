//! Load generator for real servers
