from django.urls import path

from . import views

app_name = "bookings"
urlpatterns = [
    path("", views.board, name="board"),
    path("book/", views.new, name="new"),
    path("newsletter/", views.newsletter, name="newsletter"),
    path("bookings/<int:pk>/", views.detail, name="detail"),
    path("bookings/<int:pk>/pay/", views.pay, name="pay"),
    path("bookings/<int:pk>/voucher/", views.voucher, name="voucher"),
]
