/* SPDX-License-Identifier: BSD-3-Clause */
/* leases.pml -- leases (registration/leases.c): an owner that hits and releases without the lock, and a thread that
 * evicts idle regions, for spin
 *
 * One region, which the owner holds or does not. The owner's stores go through a buffer that the processor empties in their
 * order, whenever it likes: memory of TSO, as x86's. Its loads see its own stores first. The other side's stores are followed by
 * a full barrier in the code, so they are steps. In each state a region that the owner holds must be registered.
 *
 * The owner's lock is taken by an atomic operation, which empties its buffer; membarrier empties it from outside. With FENCE
 * there is no membarrier, and the owner empties it by a fence of its own.
 *
 * MUTANT: 1 no membarrier; 2 no wait for the owner; 3 the owner does not check for a stop; 4 it continues between the
 * collection of leases and the decision; 5 leases are not collected; 6 the grant outlives the region; 7 with FENCE, the
 * owner has none
 */
#ifndef MUTANT
#define MUTANT 0
#endif
#ifdef FENCE
#define FENCED 1
#else
#define FENCED 0
#endif

mtype = { BUSY, LEASE };

chan buffer = [6] of { mtype, bit };
bit busy, lease;	  /* in memory */
byte leases_waiting;	  /* stores of `lease` in the buffer, and the last of them */
bit last_lease;
bit stopped, lock, grant, in_table, registered;
bit held; /* the client has keys of it */

#define OWN_LEASE (leases_waiting -> last_lease : lease)
#define PROMISE	  assert(!held || registered)

inline apply() {
	if
	:: buffer?BUSY, value -> busy = value
	:: buffer?LEASE, value -> lease = value; leases_waiting--
	fi
}

inline empty_buffer() {
	do
	:: nempty(buffer) -> apply()
	:: empty(buffer) -> break
	od
}

inline take_lock() { atomic { !lock -> lock = 1; empty_buffer() } }

inline store_lease(to) { atomic { buffer!LEASE, to; leases_waiting++; last_lease = to } }

proctype processor() {
	bit value;
end:	do
	:: atomic { nempty(buffer) -> apply() }
	od
}

/* inside: whether it may go on */
inline enter() {
	buffer!BUSY, 1;
	if
	:: FENCED && MUTANT != 7 -> atomic { empty_buffer() }
	:: else
	fi;
	if
	:: stopped && MUTANT != 3 -> buffer!BUSY, 0; inside = 0
	:: else -> inside = 1
	fi
}

proctype owner() {
	bit inside, done, value;

	do
	:: !held ->
		done = 0;
		enter();
		if
		:: inside ->
			if
			:: grant && !OWN_LEASE -> store_lease(1); held = 1; done = 1; PROMISE
			:: else
			fi;
			buffer!BUSY, 0
		:: else
		fi;
		if
		:: !done -> /* registers it if need be, and has a handle in the table */
			take_lock();
			atomic { registered = 1; in_table = 1; grant = 1; held = 1; lock = 0 }
		:: else
		fi
	:: held ->
		PROMISE;
		done = 0;
		enter();
		if
		:: inside ->
			if
			:: OWN_LEASE -> held = 0; store_lease(0); done = 1
			:: else
			fi;
			buffer!BUSY, 0
		:: else
		fi;
		if
		:: !done -> take_lock(); atomic { held = 0; in_table = 0; lease = 0; lock = 0 }
		:: else
		fi
	od
}

proctype evictor() {
	bit value;

	do
	:: atomic { !lock -> lock = 1 };
		stopped = 1;
		if
		:: FENCED || MUTANT == 1 -> skip
		:: else -> atomic { empty_buffer() } /* membarrier */
		fi;
		if
		:: MUTANT == 2 -> skip
		:: else -> !busy
		fi;
		if
		:: lease && MUTANT != 5 -> in_table = 1; lease = 0
		:: else
		fi;
		if
		:: MUTANT == 4 -> stopped = 0
		:: else
		fi;
		if
		:: !in_table && registered ->
			if
			:: MUTANT != 6 -> grant = 0
			:: else
			fi;
			registered = 0;
			PROMISE
		:: else
		fi;
		stopped = 0;
		lock = 0
	od
}

init { atomic { run processor(); run owner(); run evictor() } }
