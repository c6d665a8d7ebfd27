/* SPDX-License-Identifier: BSD-3-Clause */
/* hits.pml -- hits without a lock (registration/holds.h) beside evictions and frees, for spin
 *
 * Two slots of allocations share one region, with a reference each; both references are reused, for either allocation of
 * the next region. Each client has a stripe of the counts. With PARTS, one allocation may have both references, each to a
 * region of its own, as for a part and for the whole; either is published. Each load of a hit, and each store that a hit can
 * observe, is a step of its own. spin's memory is sequentially consistent. Numbers of allocations and of registrations do not
 * repeat, and are few.
 *
 * A client MR that a client holds is of a registered region of the allocation that was requested, or revoked, by a free.
 * A revoked one is counted until it is dropped. At the end no hold is left.
 *
 * MUTANT: 1 no second look; 2 the keys are read before the hold; 3 a free deregisters before it revokes; 4 a client MR at a
 * reused address does not drop the older one; 5 an eviction does not check the count; 6 the generation ends after the next
 * keys are stored; 7 a hit does not take; 8 a claim that fails leaves the old hold published, and its generation
 * not ended; 9 the keys are of the slot, not of the reference; 10 the generation of one stripe does not end; 11 a
 * reference is reused with revoked client MRs
 */
#ifndef MUTANT
#define MUTANT 0
#endif
#ifndef FREES
#define FREES 1
#endif
#ifndef REGISTRATIONS
#define REGISTRATIONS 2
#endif
#ifndef EVICTIONS
#define EVICTIONS 1
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef PARTS
#define PARTS 0
#endif
#define IDS (2 + FREES)

#define NONE 15

byte record[2];			 /* id of the live allocation; 0: none */
byte last_id = 2;
byte keys_id[2];		 /* published, by slot */
byte keys_ref[2], keys_generation[2]; /* the hold; NONE */
byte keys_key[2];		 /* MUTANT 9 */
byte generation[4], count[4];	 /* of a reference, by AT(reference, stripe) */
byte reference_key[2];		 /* of a reference: its keys, for hits */
byte reference_of[2], slot_of[2]; /* of a reference: id of its allocation; 0: unused */
byte region_of[2];		 /* of a reference: number of the registration */
byte last_region;
bit registered[REGISTRATIONS + 1];
byte covers[REGISTRATIONS + 1];	 /* ids, as bits */
bit lock;

/* Of the two clients. */
bit holding[2];
byte key[2], ref[2], gen[2], id[2], slot[2];
byte table_ref[2], table_gen[2]; /* the client MR's hold; NONE */
byte ended;

#define TAKE_LOCK  atomic { !lock -> lock = 1 }
#define AT(r, s)   (2 * (r) + (s))
#define REVOKED(i) (generation[AT(ref[i], i)] != gen[i])
#define FREED(i)   (record[slot[i]] != id[i])
#define UNUSED(r)  (!reference_of[r] && ((!count[AT(r, 0)] && !count[AT(r, 1)]) || MUTANT == 11))
#define COUNTED(i) (table_ref[i] == NONE || count[AT(table_ref[i], i)])
#define PROMISE(i) \
	assert(!holding[i] || (REVOKED(i) && FREED(i)) || \
	       (!REVOKED(i) && registered[key[i]] && (covers[key[i]] & (1 << id[i]))))

inline drop(r, g, i) {
	atomic {
		if
		:: r != NONE && (generation[AT(r, i)] == g || generation[AT(r, i)] == g + 1) ->
			assert(count[AT(r, i)]);
			count[AT(r, i)]--
		:: else
		fi
	}
}

/* The provider has reused the address if there is an older one. */
inline add(i) {
	if
	:: table_ref[i] != NONE && MUTANT != 4 -> drop(table_ref[i], table_gen[i], i)
	:: else
	fi;
	atomic { table_ref[i] = ref[i]; table_gen[i] = gen[i]; holding[i] = 1; PROMISE(i) }
}

inline publish(s, r) {
	reference_key[r] = region_of[r];
	if
	:: MUTANT == 9 -> keys_key[s] = region_of[r]
	:: else
	fi;
	if
	:: MUTANT == 6 -> generation[AT(r, 0)]++; generation[AT(r, 1)]++
	:: else
	fi;
	if
	:: record[s] == reference_of[r] ->
		if
		:: keys_id[s] != reference_of[r] ->
			keys_id[s] = 0;
			keys_ref[s] = NONE;
			keys_id[s] = reference_of[r]
		:: else
		fi;
		atomic { keys_ref[s] = r; keys_generation[s] = generation[AT(r, 0)] }
	:: else
	fi
}

/* With the lock held. Any reference of the allocation, or a new one, of the region of the other allocation or of its own. */
inline request(i) {
	atomic {
		r = NONE;
		if
		:: !FREED(i) && reference_of[0] == id[i] -> r = 0
		:: !FREED(i) && reference_of[1] == id[i] -> r = 1
		:: !FREED(i) && (PARTS || (reference_of[0] != id[i] && reference_of[1] != id[i])) ->
			if
			:: UNUSED(0) -> r = 0
			:: UNUSED(1) -> r = 1
			:: else
			fi;
			if
			:: r != NONE && reference_of[1 - r] && reference_of[1 - r] != id[i] ->
				region_of[r] = region_of[1 - r]
			:: r != NONE && (!reference_of[1 - r] || PARTS) && last_region < REGISTRATIONS ->
				last_region++;
				region_of[r] = last_region;
				registered[last_region] = 1
			:: else -> r = NONE
			fi;
			if
			:: r != NONE ->
				reference_of[r] = id[i];
				slot_of[r] = slot[i];
				covers[region_of[r]] = covers[region_of[r]] | (1 << id[i])
			:: else
			fi
		:: else
		fi
	};
	if
	:: r != NONE ->
		ref[i] = r;
		if
		:: MUTANT == 6 && (keys_id[slot[i]] != id[i] || keys_ref[slot[i]] != r) ->
			publish(slot[i], r)
		:: else
		fi;
		atomic { gen[i] = generation[AT(r, 0)]; count[AT(r, i)]++; key[i] = region_of[r] };
		add(i);
		if
		:: MUTANT != 6 -> publish(slot[i], r)
		:: else
		fi
	:: else
	fi
}

/* Fewer states. */
inline forget(i) { key[i] = 0; ref[i] = 0; gen[i] = 0; id[i] = 0; slot[i] = 0 }

proctype client(byte i) {
	byte r, rounds;
	bit taken;

	do
	:: !holding[i] && rounds < ROUNDS - i ->
		atomic {
			rounds++;
			if /* by symmetry client 1, with one request, may use slot 0 */
			:: slot[i] = 0
			:: !i -> slot[i] = 1
			fi;
			id[i] = record[slot[i]];
			taken = 0;
			if
			:: id[i] -> skip
			:: else -> goto next
			fi
		};
		if
		:: keys_id[slot[i]] == id[i] ->
			if
			:: MUTANT == 2 && keys_ref[slot[i]] != NONE -> key[i] = reference_key[keys_ref[slot[i]]]
			:: else
			fi;
			atomic { ref[i] = keys_ref[slot[i]]; gen[i] = keys_generation[slot[i]] };
			if
			:: ref[i] != NONE && MUTANT == 9 -> key[i] = keys_key[slot[i]]
			:: ref[i] != NONE && MUTANT != 2 && MUTANT != 9 -> key[i] = reference_key[ref[i]]
			:: else
			fi;
			atomic {
				if
				:: ref[i] != NONE && generation[AT(ref[i], i)] == gen[i] ->
					taken = 1;
					if
					:: MUTANT != 7 -> count[AT(ref[i], i)]++
					:: else
					fi
				:: else
				fi
			};
			if
			:: taken && (MUTANT == 1 || !FREED(i)) -> add(i)
			:: taken && MUTANT != 1 && FREED(i) -> drop(ref[i], gen[i], i)
			:: else
			fi
		:: else
		fi;
		if
		:: !taken -> TAKE_LOCK; request(i); lock = 0
		:: else
		fi;
next:		atomic {
			if
			:: !holding[i] -> forget(i); r = 0; taken = 0
			:: else
			fi
		}
	:: holding[i] ->
		atomic { PROMISE(i); assert(COUNTED(i) || MUTANT == 7); holding[i] = 0 };
		if
		:: atomic { forget(i); r = 0 } /* without a deregistration */
		:: atomic { r = table_ref[i]; table_ref[i] = NONE; forget(i) };
			drop(r, table_gen[i], i);
			r = 0
		fi
	:: !holding[i] && rounds == ROUNDS - i -> break
	od;
	drop(table_ref[i], table_gen[i], i);
	ended++
}

/* No unrevoked client MR is left in the region. */
inline deregister(number) {
	atomic {
		assert(!(holding[0] && key[0] == number && !REVOKED(0)));
		assert(!(holding[1] && key[1] == number && !REVOKED(1)));
		registered[number] = 0
	}
}

inline remove_reference(r) {
	atomic {
		if
		:: MUTANT != 6 -> generation[AT(r, 0)]++
		:: else
		fi
	};
	atomic {
		if
		:: MUTANT != 6 && MUTANT != 10 -> generation[AT(r, 1)] = generation[AT(r, 0)]
		:: else
		fi
	};
	atomic {
		if
		:: keys_id[slot_of[r]] == reference_of[r] && keys_ref[slot_of[r]] == r && MUTANT != 6 ->
			keys_ref[slot_of[r]] = NONE
		:: else
		fi;
		reference_of[r] = 0
	}
}

/* No client takes, or holds, a stripe that has ended. So it can be restored. */
inline claim(r) {
	atomic {
		if
		:: claimed && reference_of[r] && region_of[r] == number ->
			if
			:: count[AT(r, 0)] && MUTANT != 5 -> claimed = 0
			:: MUTANT != 8 && MUTANT != 6 && (!count[AT(r, 0)] || MUTANT == 5) ->
				generation[AT(r, 0)]++;
				count[AT(r, 0)] = 0
			:: else
			fi
		:: else
		fi
	};
	atomic {
		if
		:: claimed && reference_of[r] && region_of[r] == number ->
			if
			:: count[AT(r, 1)] && MUTANT != 5 ->
				claimed = 0;
				if
				:: MUTANT != 8 && MUTANT != 6 -> restore = 1
				:: else
				fi
			:: MUTANT != 8 && MUTANT != 6 && (!count[AT(r, 1)] || MUTANT == 5) ->
				generation[AT(r, 1)]++;
				count[AT(r, 1)] = 0
			:: else
			fi
		:: else
		fi
	};
	atomic {
		if
		:: restore -> generation[AT(r, 0)]--; restore = 0
		:: else
		fi
	}
}

proctype evictor() {
	bit claimed, restore;
	byte tries, number;

	do
	:: tries < EVICTIONS ->
		TAKE_LOCK;
		tries++;
		atomic {
			if
			:: reference_of[0] -> number = region_of[0]
			:: reference_of[1] -> number = region_of[1]
			:: else -> number = 0
			fi
		};
		if
		:: number ->
			claimed = 1;
			claim(0);
			claim(1);
			if
			:: claimed && MUTANT == 8 -> deregister(number)
			:: else
			fi;
			if
			:: claimed ->
				if
				:: reference_of[0] && region_of[0] == number -> remove_reference(0)
				:: else
				fi;
				if
				:: reference_of[1] && region_of[1] == number -> remove_reference(1)
				:: else
				fi;
				if
				:: MUTANT != 8 -> deregister(number)
				:: else
				fi
			:: else ->
				if
				:: reference_of[0] && region_of[0] == number && MUTANT != 8 ->
					publish(slot_of[0], 0)
				:: else
				fi;
				if
				:: reference_of[1] && region_of[1] == number && MUTANT != 8 ->
					publish(slot_of[1], 1)
				:: else
				fi
			fi
		:: else
		fi;
		lock = 0
	:: break
	od
}

/* One reference of the freed allocation, and its region if no other has it. */
inline end_reference(r) {
	if
	:: reference_of[r] == freed && (!reference_of[1 - r] || region_of[1 - r] != region_of[r]) && MUTANT == 3 ->
		deregister(region_of[r]);
		remove_reference(r)
	:: reference_of[r] == freed && (!reference_of[1 - r] || region_of[1 - r] != region_of[r]) && MUTANT != 3 ->
		remove_reference(r);
		deregister(region_of[r])
	:: reference_of[r] == freed && reference_of[1 - r] && region_of[1 - r] == region_of[r] ->
		remove_reference(r)
	:: else
	fi
}

/* The slot may have its next allocation before the lock is taken. */
proctype freer() {
	byte s, freed;

	do
	:: last_id < IDS ->
		atomic {
			if
			:: s = 0
			:: s = 1
			fi;
			freed = record[s];
			record[s] = 0
		};
		if
		:: atomic { last_id++; record[s] = last_id }
		:: skip
		fi;
		TAKE_LOCK;
		if
		:: freed -> end_reference(0); end_reference(1)
		:: else
		fi;
		lock = 0;
		atomic {
			if
			:: !record[s] && last_id < IDS -> last_id++; record[s] = last_id
			:: else
			fi
		}
	:: break
	od
}

init {
	atomic {
		record[0] = 1;
		record[1] = 2;
		last_region = 1;
		registered[1] = 1;
		covers[1] = (PARTS -> 2 : 6);
		reference_of[0] = 1;
		region_of[0] = 1;
		reference_key[0] = 1;
		keys_id[0] = 1;
		keys_key[0] = 1;
		if
		:: !PARTS ->
			reference_of[1] = 2;
			slot_of[1] = 1;
			region_of[1] = 1;
			reference_key[1] = 1;
			keys_id[1] = 2;
			keys_key[1] = 1;
			keys_ref[1] = 1
		:: else -> keys_ref[1] = NONE
		fi;
		table_ref[0] = NONE;
		table_ref[1] = NONE;
		run client(0);
		run client(1);
		run evictor();
		run freer()
	};
	atomic {
		ended == 2 && !lock ->
		assert(!count[0] && !count[1] && !count[2] && !count[3])
	}
}
