"""NUMA policy and page placement for nogil code: each returns a result or -errno."""

cdef extern from "_numa.h" nogil:
    cpdef enum:
        MPOL_DEFAULT
        MPOL_PREFERRED
        MPOL_BIND
        MPOL_INTERLEAVE
        MPOL_LOCAL
        MPOL_PREFERRED_MANY
        MPOL_WEIGHTED_INTERLEAVE
        MPOL_F_STATIC_NODES
        MPOL_F_RELATIVE_NODES
        MPOL_F_NUMA_BALANCING
        MPOL_F_NODE
        MPOL_F_ADDR
        MPOL_F_MEMS_ALLOWED
        MPOL_MF_STRICT
        MPOL_MF_MOVE
        MPOL_MF_MOVE_ALL
        NODES_MAX

    ctypedef struct node_mask "struct zs_node_mask":
        pass

    # 0, or -EINVAL for a node outside 0 to NODES_MAX - 1. A mask starts zeroed.
    int c_mask_add "zs_mask_add"(node_mask *mask, long node)
    bint c_mask_has "zs_mask_has"(const node_mask *mask, long node)
    long c_mask_next "zs_mask_next"(const node_mask *mask, long node)  # -1: none from *node* on

    ssize_t c_set_mempolicy "zs_set_mempolicy"(int mode, const node_mask *nodes)
    ssize_t c_get_mempolicy "zs_get_mempolicy"(
        int *mode, node_mask *nodes, void *address, unsigned int flags)
    ssize_t c_mbind "zs_mbind"(
        void *address, size_t length, int mode, const node_mask *nodes, unsigned int flags)
    ssize_t c_set_mempolicy_home_node "zs_set_mempolicy_home_node"(
        void *address, size_t length, unsigned long node, unsigned long flags)
    ssize_t c_move_pages "zs_move_pages"(
        int pid, size_t n, void **pages, const int *nodes, int *statuses, int flags)
    ssize_t c_migrate_pages "zs_migrate_pages"(
        int pid, const node_mask *old, const node_mask *new)
    ssize_t c_getcpu "zs_getcpu"(unsigned int *cpu, unsigned int *node)

    ssize_t c_page_statuses "zs_page_statuses"(
        size_t address, size_t n, size_t step, void **pages, int *statuses)
    ssize_t c_move_statuses "zs_move_statuses"(
        size_t address, size_t n, size_t step, int node, int flags,
        void **pages, int *nodes, int *statuses)

    # libnuma's; only where c_available() and c_node_exists(node).
    bint c_available "zs_available"()
    ssize_t c_run_on_node_mask "zs_run_on_node_mask"(const node_mask *nodes)
    ssize_t c_node_of_cpu "zs_node_of_cpu"(int cpu)
    bint c_node_exists "zs_node_exists"(int node)
    int numa_max_node()
    int numa_distance(int a, int b)
    long long numa_node_size64(int node, long long *free)
