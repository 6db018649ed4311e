//! Virtual time and network that drive the role cores, with faults and checkers
