"""Threads of jobs side by side."""

from robust_attn.runs.sweep.threads import threads_per_job


def test_threads_are_set_only_where_nobody_else_does():
    assert threads_per_job({"_target_": "hydra_plugins.hydra_submitit_launcher.submitit_launcher.LocalLauncher"}) == 1
    assert threads_per_job({"_target_": "x.submitit_launcher.SlurmLauncher", "cpus_per_task": 4}) == 4
    assert threads_per_job({"_target_": "hydra._internal.core_plugins.basic_launcher.BasicLauncher"}) is None
