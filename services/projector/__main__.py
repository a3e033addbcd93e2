import os

from services.projector.service import serve
from shared.runtime.service.main import run_service

NICE = 2  # the read model may lag: the engine goes first, but has to leave it what it needs to keep up

os.nice(NICE)
run_service("projector", serve)
