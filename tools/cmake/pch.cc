// Holds the precompiled header that all targets share.
