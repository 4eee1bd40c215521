"""Tests of the baselines run on one thread: their matrices are too small to share."""

from __future__ import annotations

import torch

torch.set_num_threads(1)
