//! What memcached does not count.

use crate::stats::metrics::{Counters, ProcessFacts, Text};

/// Writes all of it. What may fall comes first, then what only grows, whose names end in `_total`.
pub(crate) fn own(text: &mut Text, sum: &Counters, facts: &ProcessFacts) {
    for (name, help, value) in [
        (
            "memory_used_bytes",
            "Bytes lent to workers.",
            facts.used_bytes,
        ),
        ("index_bytes", "Bytes of indexes.", sum.index_bytes),
        ("segments", "Segments held now.", sum.segments),
        (
            "replica_items",
            "Replicas held for other servers.",
            sum.replica_items,
        ),
        ("replica_bytes", "Their bytes.", sum.replica_bytes),
        (
            "response_bytes",
            "Bytes of answers that clients have not read.",
            sum.response_bytes,
        ),
        (
            "read_buffer_bytes",
            "Bytes held of commands whose end has not come.",
            sum.read_buf_bytes,
        ),
        ("log_watchers", "Connections that watch.", sum.log_watchers),
        (
            "hot_keys_tracked",
            "Keys that are tracked as possibly hot.",
            sum.hot_keys_tracked,
        ),
        (
            "hot_keys_replicated",
            "Keys that have replicas at other servers.",
            sum.hot_keys_replicated,
        ),
        (
            "hot_keys_observed",
            "Keys that would have replicas if they were not only observed.",
            sum.hot_keys_observed,
        ),
    ] {
        text.gauge(&format!("evenkeel_{name}"), help, value);
    }
    for (name, help, value) in [
        (
            "turns_slow_total",
            "Turns of workers that took 50 ms or longer.",
            facts.turns_slow,
        ),
        (
            "turns_starved_total",
            "Turns of workers that took so long because the machine did not run them.",
            facts.turns_starved,
        ),
        (
            "names_asked_total",
            "Questions to the name service.",
            facts.names_asked,
        ),
        (
            "names_failed_total",
            "Questions to the name service that brought no address.",
            facts.names_failed,
        ),
        (
            "forwarded_in_total",
            "Commands that came from another worker.",
            sum.forwarded_in,
        ),
        (
            "forwarded_out_total",
            "Commands passed to another worker.",
            sum.forwarded_out,
        ),
        (
            "passed_on_total",
            "Commands of other workers' connections passed on to the new host of their key.",
            sum.passed_on,
        ),
        (
            "cachelets_given_total",
            "Cachelets given to other workers of this server.",
            sum.cachelets_given,
        ),
        (
            "cachelets_taken_total",
            "Cachelets taken from other workers of this server.",
            sum.cachelets_taken,
        ),
        (
            "cachelets_kept_total",
            "Orders to give a cachelet away that were not possible in time.",
            sum.cachelets_kept,
        ),
        (
            "cachelets_refused_total",
            "Cachelets from other workers that the map had taken from this server.",
            sum.cachelets_refused,
        ),
        (
            "cachelet_waits_total",
            "Times that a worker's connections had to wait for a cachelet that moved.",
            sum.cachelet_waits,
        ),
        (
            "cachelet_waits_short_total",
            "Those of 100 microseconds at most.",
            sum.cachelet_waits_short,
        ),
        (
            "cachelet_waits_us_total",
            "How long they were, in microseconds.",
            sum.cachelet_waits_us,
        ),
        (
            "commands_waited_total",
            "Commands that waited for a cachelet that moved.",
            sum.commands_waited,
        ),
        (
            "migrations_ordered_total",
            "Migrations to another server that a worker was ordered to carry out.",
            sum.migrations_ordered,
        ),
        (
            "migrations_passed_total",
            "Cachelets that have passed to another server with their contents.",
            sum.migrations_passed,
        ),
        (
            "migrations_aborted_total",
            "Migrations that this server gave up as their source.",
            sum.migrations_aborted,
        ),
        (
            "migrations_outrun_total",
            "Those of them whose cachelet was written faster than it could be copied.",
            sum.migrations_outrun,
        ),
        (
            "migrations_staged_total",
            "Migrations from another server that began.",
            sum.migrations_staged,
        ),
        (
            "migrations_came_total",
            "Cachelets that have come from another server with their contents.",
            sum.migrations_came,
        ),
        (
            "migrations_dropped_total",
            "Contents that had come from another server and were forgotten, because nothing came of the migration.",
            sum.migrations_dropped,
        ),
        (
            "migration_items_sent_total",
            "Items sent to other servers by migrations; those written meanwhile count again.",
            sum.migration_items_sent,
        ),
        (
            "migration_bytes_sent_total",
            "Their bytes, as sent.",
            sum.migration_bytes_sent,
        ),
        (
            "migration_items_taken_total",
            "Items taken from other servers by migrations.",
            sum.migration_items_taken,
        ),
        (
            "migration_bytes_taken_total",
            "Bytes of their keys and values.",
            sum.migration_bytes_taken,
        ),
        (
            "migration_items_unstored_total",
            "Items of migrations for which there was no room; their keys are misses.",
            sum.migration_items_unstored,
        ),
        (
            "migration_items_unsendable_total",
            "Keys that no line can hold, which do not migrate; they are misses.",
            sum.migration_items_unsendable,
        ),
        (
            "migration_pauses_total",
            "Times that copying paused because clients of the worker had to wait for too long.",
            sum.migration_pauses,
        ),
        (
            "migration_pass_us_total",
            "Microseconds in which cachelets were served by nobody because they passed to another server.",
            sum.migration_pass_us,
        ),
        (
            "moved_total",
            "Requests answered with another owner.",
            sum.moved,
        ),
        (
            "leases_granted_total",
            "Answers that granted a lease.",
            sum.leases_granted,
        ),
        (
            "leases_shortened_total",
            "Leases granted that were not whole, because a copy may have lacked a write.",
            sum.leases_shortened,
        ),
        (
            "propagations_total",
            "Replica messages sent.",
            sum.propagations,
        ),
        (
            "links_lost_total",
            "Links to shadow workers lost.",
            sum.links_lost,
        ),
        (
            "answers_held_total",
            "Answers held back because copies of their keys could still be read.",
            sum.answers_held,
        ),
        (
            "holds_confirmed_total",
            "Times of holding that ended because every copy was blocked.",
            sum.holds_confirmed,
        ),
        (
            "holds_by_lease_total",
            "Times of holding that ended with the last lease.",
            sum.holds_by_lease,
        ),
        (
            "holds_microseconds_total",
            "How long answers were held back, in all times of holding.",
            sum.holds_us,
        ),
        (
            "hot_keys_promoted_total",
            "Times that a key got replicas.",
            sum.hot_keys_promoted,
        ),
        (
            "hot_keys_widened_total",
            "Times that a key got more replicas.",
            sum.hot_keys_widened,
        ),
        (
            "hot_keys_retired_total",
            "Times that a key was to lose its replicas.",
            sum.hot_keys_retired,
        ),
        (
            "hot_keys_would_promote_total",
            "Times that a key would have got replicas if it had not only been observed.",
            sum.hot_keys_would_promote,
        ),
        (
            "hot_reads_sampled_total",
            "Reads looked at by chance.",
            sum.hot_reads_sampled,
        ),
        (
            "hot_keys_untracked_full_total",
            "Sampled keys not tracked because every tracked one had replicas.",
            sum.hot_keys_untracked_full,
        ),
        (
            "hot_keys_unpromoted_full_total",
            "Hot keys without replicas because too many others had some.",
            sum.hot_keys_unpromoted_full,
        ),
        (
            "hot_keys_unpromoted_alone_total",
            "Hot keys without replicas because no other server could hold them.",
            sum.hot_keys_unpromoted_alone,
        ),
        (
            "hot_log_overwritten_total",
            "Entries of the log of hot keys that were overwritten.",
            sum.hot_log_overwritten,
        ),
        (
            "copies_unconfirmed_total",
            "Writes of which it never was known whether every replica had them.",
            sum.copies_unconfirmed,
        ),
        (
            "replica_hits_total",
            "Reads of replicas: found.",
            sum.replica_hits,
        ),
        (
            "replica_misses_total",
            "Reads of replicas: not found.",
            sum.replica_misses,
        ),
        (
            "replica_stores_total",
            "Replicas stored or renewed.",
            sum.replica_stores,
        ),
        (
            "replica_deletes_total",
            "Replicas removed.",
            sum.replica_deletes,
        ),
        (
            "replica_refused_old_total",
            "Replica stores refused for a newer version.",
            sum.replica_refused_old,
        ),
        (
            "replica_orders_early_total",
            "Orders about replicas that waited for the map they were sent by.",
            sum.replica_orders_early,
        ),
        (
            "strangers_refused_total",
            "What only servers say, refused on ordinary ports.",
            sum.strangers_refused,
        ),
        (
            "stalled_closed_total",
            "Connections closed for want of progress.",
            sum.stalled_closed,
        ),
        (
            "read_buffers_refused_total",
            "Connections closed for want of memory for what they send.",
            sum.read_buf_oom,
        ),
        (
            "read_buffers_waited_total",
            "Commands that had to wait for memory for what the client sends.",
            sum.read_buf_waits,
        ),
        (
            "responses_waited_total",
            "Times that a large answer had to wait for memory.",
            sum.response_obj_waits,
        ),
        (
            "responses_refused_total",
            "Connections closed for want of memory for answers that they do not read.",
            sum.response_obj_oom,
        ),
        (
            "idle_kicks_total",
            "Connections closed for being idle.",
            sum.idle_kicks,
        ),
        (
            "leases_lost_total",
            "Times that a worker's leave to serve ended without another.",
            sum.leases_lost,
        ),
        (
            "leases_unusable_total",
            "Serving leases that came too late or before their map.",
            sum.leases_unusable,
        ),
        (
            "leases_by_votes_total",
            "Serving leases by the votes of other servers.",
            sum.leases_by_votes,
        ),
        (
            "requests_without_lease_total",
            "Requests not carried out for lack of a serving lease.",
            sum.requests_without_lease,
        ),
        (
            "keys_of_others_total",
            "Keys of other servers that clients without a map asked for; each was refused.",
            sum.keys_of_others,
        ),
        (
            "answers_too_late_total",
            "Connections closed because answers may have outlived a serving lease.",
            sum.answers_too_late,
        ),
        (
            "votes_given_total",
            "Votes given to other servers.",
            sum.votes_given,
        ),
        (
            "votes_refused_total",
            "Votes refused to other servers.",
            sum.votes_refused,
        ),
        (
            "maps_refused_total",
            "Maps that could not be used.",
            sum.maps_refused,
        ),
        (
            "protocol_errors_total",
            "Commands that the parser refused.",
            sum.protocol_errors,
        ),
        ("auth_errors_total", "Credentials refused.", sum.auth_errors),
        (
            "log_dropped_total",
            "Lines for watchers that found no room.",
            sum.log_worker_dropped,
        ),
        (
            "log_skipped_total",
            "Lines that watchers were too slow for.",
            sum.log_watcher_skipped,
        ),
        (
            "prefixes_overflowed_total",
            "Commands whose prefix was not counted.",
            sum.prefixes_overflowed,
        ),
    ] {
        text.counter(&format!("evenkeel_{name}"), help, value);
    }
    text.ages(
        "evenkeel_copies_behind_seconds",
        "How long writes to replicated keys took until every replica was known to have them.",
        &sum.copies_behind,
    );
}
