from services.scheduler.service import serve
from shared.runtime.main import run_service

run_service("scheduler", serve)
