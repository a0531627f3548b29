"""Benchmarks of zerosys: one question a file, rivals in the same run. See README.md."""
