//! Pure decisions: placement, hot keys
