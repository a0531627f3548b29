"""Linux's zero-copy calls and NUMA placement, composed into shared memory that lies where you asked."""
