/* SPDX-License-Identifier: BSD-3-Clause */
/* hits.pml -- hits without a lock (registration/holds.h) beside evictions and frees, for spin
 *
 * The entries of two slots of allocations name one region; two structs of regions are reused, for either allocation of the
 * next region. Each client has a stripe of the counts. With PARTS, one allocation may have both regions, as for a part and
 * for the whole; either is published. Each load of a hit, and each store that a hit can observe, is a step of its own.
 * spin's memory is sequentially consistent. Numbers of allocations and of registrations do not repeat, and are few.
 *
 * A client MR that a client holds is of a registered region of the allocation that was requested, or revoked, by a free.
 * One of freed memory may be of a region that another allocation keeps. A revoked one is counted until it is dropped. At the
 * end no hold is left.
 *
 * MUTANT: 1 no second look; 2 the keys are read before the hold; 3 a free deregisters before it revokes; 4 a client MR at a
 * reused address does not drop the older one; 5 an eviction does not check the count; 6 the generation ends after the next
 * keys are stored; 7 a hit does not take; 8 a claim that fails leaves the old hold published, and its generation
 * not ended; 9 the keys are of the slot, not of the region; 10 the generation of one stripe does not end; 11 a
 * struct of a region is reused with revoked client MRs
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
byte generation[4], count[4];	 /* of a region, by AT(region, stripe) */
byte hits_key[2];		 /* of a region: its keys, for hits */
bit named[4];			 /* by BY(slot, region): the entry names it */
byte region_of[2];		 /* of a region: number of the registration; 0: unused */
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
#define UNUSED(r)  (!region_of[r] && ((!count[AT(r, 0)] && !count[AT(r, 1)]) || MUTANT == 11))
#define BY(s, r)   (2 * (s) + (r))
#define NAMED(r)   (named[BY(0, r)] || named[BY(1, r)])
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

/* No unrevoked client MR is left in the region. */
inline deregister(number) {
	atomic {
		assert(!(holding[0] && key[0] == number && !REVOKED(0)));
		assert(!(holding[1] && key[1] == number && !REVOKED(1)));
		registered[number] = 0
	}
}

/* Names end with the generation. */
inline end_region(r) {
	if
	:: MUTANT == 3 -> deregister(region_of[r])
	:: else
	fi;
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
	if
	:: MUTANT != 3 -> deregister(region_of[r])
	:: else
	fi;
	atomic { named[BY(0, r)] = 0; named[BY(1, r)] = 0; region_of[r] = 0 }
}

/* The entry of the slot is for no allocation any more. */
inline end_entry(s) {
	keys_id[s] = 0;
	keys_ref[s] = NONE;
	atomic {
		if
		:: named[BY(s, 0)] && !named[BY(1 - s, 0)] -> ends = 1
		:: else
		fi;
		named[BY(s, 0)] = 0
	};
	if
	:: ends -> end_region(0)
	:: else
	fi;
	atomic {
		ends = 0;
		if
		:: named[BY(s, 1)] && !named[BY(1 - s, 1)] -> ends = 1
		:: else
		fi;
		named[BY(s, 1)] = 0
	};
	if
	:: ends -> end_region(1)
	:: else
	fi;
	ends = 0
}

inline publish(s, r) {
	if
	:: MUTANT == 9 -> keys_key[s] = region_of[r]
	:: else
	fi;
	atomic { keys_ref[s] = r; keys_generation[s] = generation[AT(r, 0)] }
}

/* With the lock held. Any region of the allocation, that of the other allocation, or a new one. The entry may be of an
 * allocation whose free waits for the lock: its regions end as in the free. */
inline request(i) {
	if
	:: !FREED(i) && keys_id[slot[i]] != id[i] ->
		end_entry(slot[i]);
		keys_id[slot[i]] = id[i]
	:: else
	fi;
	atomic {
		r = NONE;
		made = 0;
		if
		:: !FREED(i) && named[BY(slot[i], 0)] -> r = 0
		:: !FREED(i) && named[BY(slot[i], 1)] -> r = 1
		:: !FREED(i) && (PARTS || (!named[BY(slot[i], 0)] && !named[BY(slot[i], 1)])) ->
			if
			:: named[BY(1 - slot[i], 0)] && !named[BY(slot[i], 0)] -> r = 0
			:: named[BY(1 - slot[i], 1)] && !named[BY(slot[i], 1)] -> r = 1
			:: ((!NAMED(0) && !NAMED(1)) || PARTS) && last_region < REGISTRATIONS ->
				if
				:: UNUSED(0) -> r = 0
				:: UNUSED(1) -> r = 1
				:: else
				fi;
				if
				:: r != NONE ->
					last_region++;
					region_of[r] = last_region;
					registered[last_region] = 1;
					made = 1
				:: else
				fi
			:: else
			fi;
			if
			:: r != NONE ->
				named[BY(slot[i], r)] = 1;
				covers[region_of[r]] = covers[region_of[r]] | (1 << id[i])
			:: else
			fi
		:: else
		fi
	};
	if
	:: r != NONE ->
		if
		:: made ->
			hits_key[r] = region_of[r];
			if
			:: MUTANT == 6 -> generation[AT(r, 0)]++; generation[AT(r, 1)]++
			:: else
			fi
		:: else
		fi;
		ref[i] = r;
		atomic { gen[i] = generation[AT(r, 0)]; count[AT(r, i)]++; key[i] = region_of[r] };
		add(i);
		publish(slot[i], r)
	:: else
	fi
}

/* Fewer states. */
inline forget(i) { key[i] = 0; ref[i] = 0; gen[i] = 0; id[i] = 0; slot[i] = 0 }

proctype client(byte i) {
	byte r, rounds;
	bit taken, made, ends;

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
			:: MUTANT == 2 && keys_ref[slot[i]] != NONE -> key[i] = hits_key[keys_ref[slot[i]]]
			:: else
			fi;
			atomic { ref[i] = keys_ref[slot[i]]; gen[i] = keys_generation[slot[i]] };
			if
			:: ref[i] != NONE && MUTANT == 9 -> key[i] = keys_key[slot[i]]
			:: ref[i] != NONE && MUTANT != 2 && MUTANT != 9 -> key[i] = hits_key[ref[i]]
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
		:: PARTS -> skip /* for bytes outside of the published region */
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

/* No client takes, or holds, a stripe that has ended. So it can be restored. */
inline claim(r) {
	atomic {
		if
		:: claimed ->
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
		:: claimed ->
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
	byte tries, r;

	do
	:: tries < EVICTIONS ->
		TAKE_LOCK;
		tries++;
		atomic {
			if
			:: region_of[0] -> r = 0
			:: region_of[1] -> r = 1
			:: else -> r = NONE
			fi
		};
		if
		:: r != NONE ->
			claimed = 1;
			claim(r);
			if
			:: claimed && MUTANT == 8 -> deregister(region_of[r])
			:: else
			fi;
			if
			:: claimed -> end_region(r)
			:: else
			fi
		:: else
		fi;
		lock = 0
	:: break
	od
}

/* The slot may have its next allocation, and that an entry, before the lock is taken. */
proctype freer() {
	byte s, freed;
	bit ends;

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
		:: freed && keys_id[s] == freed -> end_entry(s)
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
		region_of[0] = 1;
		hits_key[0] = 1;
		named[BY(0, 0)] = 1;
		keys_id[0] = 1;
		keys_key[0] = 1;
		if
		:: !PARTS ->
			named[BY(1, 0)] = 1;
			keys_id[1] = 2;
			keys_key[1] = 1
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
